import { startApiServer } from "../../tools/stack/api-server.ts";
import { startS3Server } from "../../tools/stack/s3-server.ts";

/** A runner for the test to kill: an S3 server and an API server, held until the end. */
await using _s3 = await startS3Server();
await using _api = await startApiServer();
process.stdout.write("servers run\n");
await new Promise(() => setInterval(() => {}, 60_000));
