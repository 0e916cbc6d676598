import assert from "node:assert/strict";
import { test } from "node:test";
import { shortfallsOf } from "./platform.ts";
import type { Platform } from "./platform.ts";

const GOOD: Platform = {
  kernel: "6.12.0",
  missingCalls: [],
  cgroupVersion: 2,
  kubelet: "v1.31.0",
  apiServer: "v1.36.3",
};

// prettier-ignore
const TABLE: [change: Partial<Platform>, expected: [level: string, words: RegExp][]][] = [
  [{},                                                  []],
  [{ kubelet: undefined, apiServer: undefined },        []],
  [{ kubelet: "v1.31.0-eks-5e0fdde", apiServer: "v2.0.1" }, []],
  [{ kubelet: "unknown" },                              []],
  [{ kernel: "5.10.0", missingCalls: ["mount_setattr"] }, [["fallback", /^Linux 5\.10\.0 lacks mount_setattr, read-only volumes .*: use Linux 5\.12 or newer$/]]],
  [{ kernel: "5.4.0", missingCalls: ["openat2", "mount_setattr"] }, [["unusable", /^Linux 5\.4\.0 lacks openat2.*: use Linux 5\.6 or newer$/], ["fallback", /mount_setattr/]]],
  [{ cgroupVersion: 1 },                                [["fallback", /cgroup v1.*: use cgroup v2$/]]],
  [{ kubelet: "v1.30.14" },                             [["unsupported", /^the kubelet is v1\.30\.14: use Kubernetes 1\.31 or newer$/]]],
  [{ apiServer: "v1.9.0" },                             [["unsupported", /^the API server is v1\.9\.0: /]]],
  [{ apiServer: "v0.40.0" },                            [["unsupported", /^the API server is v0\.40\.0: /]]],
];

for (const [change, expected] of TABLE) {
  test(`a node with ${JSON.stringify(change)} has ${expected.length} shortfalls`, () => {
    const shortfalls = shortfallsOf({ ...GOOD, ...change });
    assert.deepEqual(
      shortfalls.map(({ level }) => level),
      expected.map(([level]) => level),
    );
    for (const [index, [, words]] of expected.entries()) {
      assert.match(shortfalls[index]?.words ?? "", words);
    }
  });
}
