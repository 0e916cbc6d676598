import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import koffi from "koffi";

/**
 * Loaded with --import into a process that knows nothing of it: kills it right before or after one
 * of its own system calls. `KILL_ORDER` names a file with the order, read at each call.
 */
export interface KillOrder {
  readonly when: "before" | "after";
  /** What the call looks like: its name, then its words. */
  readonly call: string;
}

const { KILL_ORDER = "" } = process.env;
const SYSCALLS: Readonly<Record<number, string>> = { 429: "move_mount" };
const WATCHED = ["mkdirSync", "openSync", "rmdirSync", "writeSync"] as const;
const { readFileSync } = fs;

type Call = (...args: unknown[]) => unknown;

/** With the same properties as the call itself: koffi's have an asynchronous form. */
function mortal(name: string, call: Call): Call {
  return new Proxy(call, {
    apply(target, self, args: unknown[]) {
      const order = orderFor(wordsOf(name, args)); // before: nothing may touch errno afterwards
      if (order?.when === "before") die();
      const result: unknown = Reflect.apply(target, self, args);
      if (order?.when === "after") die();
      return result;
    },
  });
}

function orderFor(words: string): KillOrder | undefined {
  try {
    const order = JSON.parse(readFileSync(KILL_ORDER, "utf8")) as KillOrder;
    return new RegExp(order.call).test(words) ? order : undefined;
  } catch {
    return undefined; // there is none
  }
}

/** A process that kills itself does not come back from the call. */
function die(): void {
  process.kill(process.pid, "SIGKILL");
}

function wordsOf(name: string, args: readonly unknown[]): string {
  const [first, second] = args;
  if (name === "syscall") return [SYSCALLS[Number(first)] ?? first, ...args.slice(1)].join(" ");
  if (name === "sendmsg") return `${name} ${textOf(second)}`;
  return [name, ...args].join(" ");
}

function textOf(message: unknown): string {
  const { msg_iov: pieces } = message as { msg_iov: readonly { iov_base: Buffer }[] };
  return pieces.map(({ iov_base: bytes }) => bytes.toString()).join("");
}

const open = fs as unknown as Record<string, Call>;
for (const name of WATCHED) open[name] = mortal(name, fs[name] as Call);
syncBuiltinESMExports();

const { load } = koffi;
koffi.load = (...args: Parameters<typeof load>) => {
  const library = load(...args);
  const bind = library.func.bind(library) as (prototype: string) => Call;
  const bound = (prototype: string) =>
    mortal(/(\w+)\(/.exec(prototype)?.[1] ?? "", bind(prototype));
  return Object.create(library, { func: { value: bound } }) as typeof library;
};
