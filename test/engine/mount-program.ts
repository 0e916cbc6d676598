import { runMount } from "../../src/mount/run.ts";

/** The role alone, as a process of its own: what a test mounts must not live in the test. */
process.exit(await runMount(process.argv.slice(2), process.env));
