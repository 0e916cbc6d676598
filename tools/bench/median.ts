/** The middle one, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)];
  const high = sorted[Math.ceil((sorted.length - 1) / 2)];
  if (low === undefined || high === undefined) throw new Error("no values, no median");
  return (low + high) / 2;
}

/** The smallest value that this share of all values does not exceed: one that was measured. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const value = sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1];
  if (value === undefined) throw new Error("no values, no percentile");
  return value;
}
