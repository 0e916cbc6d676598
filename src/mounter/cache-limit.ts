const CACHE = "--cache=";
const MAX_CACHE_SIZE = "--max-cache-size=";

/**
 * An engine's arguments with a cache that fits into this pod's volume. The node service may not
 * know its size, and the arguments of a resumed mount were made for the volume of another pod.
 */
export function withCacheLimit(args: readonly string[], limitMib: number | undefined): string[] {
  if (limitMib === undefined || !args.some((arg) => arg.startsWith(CACHE))) return [...args];
  const given = args.find((arg) => arg.startsWith(MAX_CACHE_SIZE));
  const isKept = given !== undefined && !(Number(given.slice(MAX_CACHE_SIZE.length)) > limitMib);
  if (isKept) return [...args]; // what is no number is the engine's to refuse
  return [...args.filter((arg) => arg !== given), `${MAX_CACHE_SIZE}${limitMib}`];
}
