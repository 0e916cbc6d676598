/** Undefined when the answer does not say it in digits: an object of unknown size is not empty. */
export function objectSizeOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}
