export const OURS = "s3csi";
export const PEERS = ["s3fs", "rclone"] as const;

/** `<case>_<what>` is ours, `<case>_<peer>_<what>` a peer's. */
export function figureOf(name: string, by: string, what: string): string {
  return by === OURS ? `${name}_${what}` : `${name}_${by}_${what}`;
}
