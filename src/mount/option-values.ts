import { Failure } from "../base/failure.ts";

const FOREVER_MS = 100 * 365 * 86_400_000;
const MINIMAL_MS = 100;

/** One line, whatever was typed. */
function wrong(name: string, text: string, right: string): Failure {
  return new Failure("invalid", `--${name} ${JSON.stringify(text).slice(1, -1)}: ${right}`);
}

export interface Bounds {
  readonly min: number;
  readonly max: number;
}

export function wholeNumber(name: string, text: string, { min, max }: Bounds): number {
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= min && number <= max) return number;
  throw wrong(name, text, `a whole number from ${min} to ${max} is expected`);
}

export function octalMode(name: string, text: string): number {
  if (/^[0-7]{3,4}$/.test(text)) {
    const mode = Number.parseInt(text, 8);
    if (mode <= 0o777) return mode;
  }
  throw wrong(name, text, "an octal mode such as 0755 is expected");
}

export function ttlMs(name: string, text: string): number {
  if (text === "indefinite") return FOREVER_MS;
  if (text === "minimal") return MINIMAL_MS;
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  throw wrong(name, text, "seconds, indefinite or minimal is expected");
}

export function oneOf<T extends string>(name: string, text: string, allowed: readonly T[]): T {
  const found = allowed.find((word) => word === text);
  if (found !== undefined) return found;
  throw wrong(name, text, `one of ${allowed.join(", ")} is expected`);
}

/** Empty, or a prefix that ends like a directory. */
export function keyPrefix(name: string, text: string): string {
  if (text === "" || (text.endsWith("/") && !text.startsWith("/"))) return text;
  throw wrong(name, text, "a prefix that ends with / and does not begin with one is expected");
}

export function matching(name: string, text: string, pattern: RegExp, right: string): string {
  if (pattern.test(text)) return text;
  throw wrong(name, text, right);
}

/** What could break out of a header line, or confuse a signature. */
export function headerText(name: string, text: string): string {
  if (/^[\x20-\x7e]*$/.test(text)) return text;
  throw wrong(name, text, "printable ASCII is expected");
}
