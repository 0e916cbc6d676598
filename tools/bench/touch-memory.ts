import { allocateLarge } from "../../src/sys/large-pages.ts";

// Run by warm-memory.ts, in a process of its own: with its end the memory is the kernel's again.
allocateLarge(Number(process.argv[2])).fill(1);
