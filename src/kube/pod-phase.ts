/** A pod in this phase runs no container any more, and never will again. */
export function isFinished(phase: string | undefined): boolean {
  return phase === "Succeeded" || phase === "Failed";
}
