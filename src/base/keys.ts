import { filled, optional, record } from "./shape.ts";

/** The keys of an S3 account as they travel between processes. */
export interface Keys {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export const keys = record<Keys>({
  accessKeyId: filled,
  secretAccessKey: filled,
  sessionToken: optional(filled),
});
