import { PosixFailure } from "./posix-failure.ts";

const NAME_BYTES_MAX = 255;

/** Keys can be anything; names can't. What fails here is hidden in listings. */
export function isVisibleName(name: string): boolean {
  if (name === "" || name === "." || name === "..") return false;
  return !name.includes("\0") && !name.includes("/") && Buffer.byteLength(name) <= NAME_BYTES_MAX;
}

export function checkName(name: string): void {
  if (Buffer.byteLength(name) > NAME_BYTES_MAX) {
    throw new PosixFailure("ENAMETOOLONG", `a name of more than ${NAME_BYTES_MAX} bytes`);
  }
  if (!isVisibleName(name)) throw new PosixFailure("EINVAL", `not a file name: ${name}`);
}

/** The root's path is empty; no path begins or ends with a slash. */
export function childPathOf(parentPath: string, name: string): string {
  return parentPath === "" ? name : `${parentPath}/${name}`;
}

export function parentPathOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
