import { statSync } from "node:fs";
import { MOUNT_S3_FLAGS, MOUNT_S3_VALUES } from "./mount-s3-options.ts";

/**
 * What mount-s3 would say to its command line, and what a driver must not do: `args` are its own.
 * Ends with 0 where it would go on to serve, which our own engine then does in its name.
 */
const [, , bucket = "", place = "", ...words] = process.argv;

function refuse(reason: string, status: number): never {
  process.stderr.write(`${reason}\n\nFor more information, try '--help'.\n`);
  process.exit(status);
}

function checkWord(word: string): void {
  const [, name = "", value] = /^--([a-z0-9-]+)(?:=(.*))?$/s.exec(word) ?? [];
  const isKnown = value === undefined ? MOUNT_S3_FLAGS.has(name) : MOUNT_S3_VALUES.has(name);
  if (!isKnown) refuse(`error: unexpected argument '${word}' found`, 2);
  if (/^[ug]id$/.test(name) && value === "0") {
    refuse(`error: invalid value '0' for '--${name}': 0 is not in 1..=4294967295`, 2);
  }
}

if (bucket === "" || !/^\/dev\/fd\/\d+$/.test(place)) refuse("error: BUCKET /dev/fd/N", 2);
for (const word of words) checkWord(word);
for (const word of ["--read-only", "--auto-unmount"]) {
  if (words.includes(word)) refuse(`Error: Mount options: ${word} are ignored with FUSE fd`, 1);
}
if (!words.includes("--foreground")) refuse("a driver that loses sight of it", 70);
if (Object.keys(process.env).some((name) => /^AWS_(ACCESS|SECRET|SESSION)/.test(name))) {
  refuse("keys in the environment", 70);
}
if (!words.includes("--no-sign-request")) {
  const file = process.env["AWS_SHARED_CREDENTIALS_FILE"] ?? "";
  const mode = statSync(file).mode & 0o777;
  if (mode !== 0o600) refuse(`the keys are for everybody to read: ${mode.toString(8)}`, 70);
}
