/** Names the account that a bucket must belong to. Servers that do not know it ignore it. */
export const OWNER_HEADER = "x-amz-expected-bucket-owner";
