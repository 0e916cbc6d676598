/**
 * Who may use a mount. The kernel could only tell its owner from all others, and the owner of the
 * connection is not always who serves it: so the kernel lets everybody in, and we decide.
 */
export function admission(
  lets: "owner" | "root" | "all",
  ownerUid: number,
): (callerUid: number) => boolean {
  if (lets === "all") return () => true;
  if (lets === "root") return (uid) => uid === ownerUid || uid === 0;
  return (uid) => uid === ownerUid;
}
