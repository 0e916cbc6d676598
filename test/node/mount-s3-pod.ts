import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { mountIdOf } from "../../src/volume/engine.ts";
import { mounterWords } from "./mounter-process.ts";
import type { MounterProcess } from "./mounter-process.ts";
import type { TestNode, TestPod } from "./test-node.ts";

const STAND_IN = join(import.meta.dirname, "mount-s3-stand-in.ts");
const PROGRAM = join(import.meta.dirname, "../../src/main.ts");

/** A Mountpoint Pod whose engine is a program that takes what mount-s3 takes, and no more. */
export class MountS3Pod {
  readonly #pod: TestPod;
  readonly #program: string;
  readonly credentialsDir: string;

  constructor(node: TestNode, name = "mp-1", generation = 0) {
    this.#pod = node.pod(name, { mountId: mountIdOf(name, "mount-s3"), generation });
    const volumes = dirname(this.#pod.commDir);
    this.credentialsDir = join(volumes, "credentials");
    mkdirSync(this.credentialsDir);
    this.#program = join(volumes, "mount-s3");
    const lines = [
      "#!/bin/sh",
      `${process.execPath} ${STAND_IN} "$@" || exit $?`,
      `exec ${process.execPath} ${PROGRAM} mount "$@"`,
    ];
    writeFileSync(this.#program, `${lines.join("\n")}\n`, { mode: 0o755 });
  }

  get pod() {
    return this.#pod.pod;
  }

  get mountId(): string {
    return this.pod.mountId;
  }

  /** Starts its container. */
  run(program = this.#program, ...flags: string[]): MounterProcess {
    const own = ["--mount-s3", program, "--credentials-dir", this.credentialsDir];
    return this.#pod.runWith(mounterWords(...own, ...flags));
  }
}
