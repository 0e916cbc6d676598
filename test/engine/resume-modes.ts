/** How an engine learns what its predecessor had not answered: options of `s3csi mount`. */
export const MODES = { "with RESEND": [], "by slots alone": ["--no-resend"] } as const;
