import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { startS3Server } from "../../tools/stack/s3-server.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);

const FILL = `
import os, sys
count, name, *directories = sys.argv[1:]
for directory in directories:
    os.makedirs(directory)
    for n in range(int(count)):
        path = os.path.join(directory, name % n)
        with open(path, "w") as file:
            file.write("x")
        os.setxattr(path, "user.etag", b'"9dd4e461268c8034f5c8564e155c67a6"')
`;

/**
 * Makes objects of one byte each, far sooner than by uploads: an object of the S3 server is a file
 * with its ETag as an attribute. `name` is a format with one number, like `file-%06d`.
 */
export async function fillBucket(
  bucketDir: string,
  directories: readonly string[],
  count: number,
  name: string,
): Promise<void> {
  await run("python3", ["-c", FILL, String(count), name, ...directories], { cwd: bucketDir });
}

/** A bucket and the directory whose files are its objects. */
export async function startFileBucket(): Promise<{ bucket: TestBucket; bucketDir: string }> {
  let dataDir = "";
  const bucket = await TestBucket.start(async () => {
    const server = await startS3Server();
    ({ dataDir } = server);
    return server;
  });
  return { bucket, bucketDir: join(dataDir, bucket.name) };
}
