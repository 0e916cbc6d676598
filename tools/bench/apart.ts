import { fork } from "node:child_process";
import { once } from "node:events";
import { unmount } from "../../src/sys/fuse-mount.ts";
import { readMounts } from "../../src/sys/mount-info.ts";
import { ToolError, toolMain } from "../progress.ts";
import { checkHost } from "../stack/check-host.ts";
import type { Figures } from "./part.ts";

/** What the worker tells the process that started it. */
type WorkerMessage = { readonly progress: string } | { readonly figures: Figures };

/**
 * Measures in a process of its own that has its mounts for itself and dies with this one: however
 * the run ends, no mount is left.
 */
export async function figuresOfWorker(
  file: string,
  args: readonly string[],
  progress: (text: string) => void,
): Promise<Figures> {
  checkHost();
  const wrapper = ["--pdeathsig", "KILL", "--", "unshare", "--mount", "--", process.execPath];
  const worker = fork(file, args, { execPath: "setpriv", execArgv: wrapper });
  let figures: Figures | undefined;
  worker.on("message", (message: WorkerMessage) => {
    if ("progress" in message) progress(message.progress);
    else figures = message.figures;
  });
  await once(worker, "exit");
  if (figures === undefined) throw new ToolError("the benchmark gave no figures");
  return figures;
}

/** The other end: the worker's whole life. */
export async function workerMain(
  work: (args: readonly string[], progress: (text: string) => void) => Promise<Figures>,
): Promise<void> {
  await toolMain(async () => {
    leaveStrangersMounts();
    tell({ figures: await work(process.argv.slice(2), (progress) => tell({ progress })) });
  });
  process.disconnect?.();
}

function tell(message: WorkerMessage): void {
  process.send?.(message);
}

/** The namespace began as a copy: a copied FUSE mount keeps a stranger's engine from ending. */
function leaveStrangersMounts(): void {
  const strangers = readMounts().filter(({ type }) => /^fuse(\.|$)/.test(type));
  for (const { mountPoint } of strangers.toReversed()) unmount(mountPoint, { detach: true });
}
