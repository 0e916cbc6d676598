/**
 * The keys that a listing may mean by this text, in the order to try them: Scality's servers list
 * the keys of uploads URL-encoded without naming the encoding. A key outside the prefix is never
 * among them, since a server that ignores the prefix lists the objects of other tenants too.
 */
export function keysBelow(prefix: string, listed: string, encodingType?: string): string[] {
  const decoded = decodedOf(listed);
  const keys = encodingType === "url" ? [decoded] : [...new Set([listed, decoded])];
  return keys.filter((key) => key.startsWith(prefix));
}

/** Where the next page begins. A server that encodes keys names the encoding in its answer. */
export function markerOf(key: string, encodingType: string | undefined): string {
  return encodingType === "url" ? decodedOf(key) : key;
}

function decodedOf(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll("+", " "));
  } catch {
    return key;
  }
}
