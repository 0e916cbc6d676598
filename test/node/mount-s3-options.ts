/** The options of mount-s3 1.24, as its help lists them: those with a value, those without. */
export const MOUNT_S3_VALUES = wordsOf(`
  prefix region endpoint-url bucket-type storage-class expected-bucket-owner sse sse-kms-key-id
  upload-checksums profile uid gid dir-mode file-mode maximum-throughput-gbps max-threads
  memory-target part-size read-part-size write-part-size ca-bundle bind log-directory
  otlp-endpoint otlp-export-interval cache metadata-ttl negative-metadata-ttl max-cache-size
  cache-xz user-agent-prefix options
`);
export const MOUNT_S3_FLAGS = wordsOf(`
  force-path-style transfer-acceleration dual-stack requester-pays infer-content-type
  no-sign-request read-only allow-delete allow-overwrite incremental-upload auto-unmount
  allow-root allow-other foreground log-metrics debug debug-crt no-log help version
`);

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}
