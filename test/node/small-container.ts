import process from "node:process";

/** For tests: our program, which believes that its container has a memory limit of 64 MiB. */
process.constrainedMemory = () => 64 << 20;
await import("../../src/main.ts");
