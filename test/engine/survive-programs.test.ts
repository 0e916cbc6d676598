import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import * as fs from "node:fs/promises";
import { join, relative } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, describe, test } from "node:test";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { EngineKiller } from "../../tools/bench/survive/engine-killer.ts";
import { temporaryDirectory } from "../node/temporary-directory.ts";
import { mountShipped } from "./engine-process.ts";
import { fio } from "./fio.ts";
import { MODES } from "./resume-modes.ts";
import { TestBucket } from "./test-bucket.ts";

const run = promisify(execFile);
const FULL = process.env["FULL"] === "1";
const TARRED = FULL ? 2_000 : 200;
const ROWS = FULL ? 200_000 : 20_000;
const FIO = { numjobs: 2, size: FULL ? "256m" : "32m", bs: "128k" };
const KILL_WITHIN_MS = 200;
const KILLS_MIN = FULL ? 20 : 3;
const PROGRAM_LIMIT_MS = 600_000;

const QUERY = `
  import { DatabaseSync } from "node:sqlite";
  const database = new DatabaseSync(process.argv[1], { readOnly: true });
  const row = database.prepare("SELECT count(*) AS n, sum(length(text)) AS s FROM t").get();
  const found = database.prepare("SELECT id FROM t WHERE text LIKE '%row 77 %'").all();
  const check = database.prepare("PRAGMA integrity_check").get();
  console.log(JSON.stringify({ ...row, found: found.length, ...check }));
`;

describe("programs that know nothing of engines, while theirs is killed", () => {
  let bucket: TestBucket;
  let owned: AsyncDisposableStack;
  let local: string;
  before(async () => {
    await using made = new AsyncDisposableStack();
    bucket = made.use(await TestBucket.start());
    local = made.use(await temporaryDirectory()).path;
    await makeTree();
    await makeRepository();
    makeDatabase();
    for (const name of ["repository", "database"]) await upload(name);
    owned = made.move();
  });
  after(() => owned.disposeAsync());

  async function makeTree(): Promise<void> {
    for (let n = 0; n < TARRED; n++) {
      const directory = join(local, "tree", String(n % 20));
      await fs.mkdir(directory, { recursive: true });
      await fs.writeFile(join(directory, `file-${n}`), `content of ${n}\n`.repeat(1 + (n % 50)));
    }
    await run("tar", ["cf", join(local, "tree.tar"), "-C", join(local, "tree"), "."]);
  }

  /** With loose objects and with packed ones. */
  async function makeRepository(): Promise<void> {
    const git = (...args: string[]) =>
      run("git", ["-c", "user.name=t", "-c", "user.email=t@t", "-C", join(local, "tree"), ...args]);
    await git("init", "-q", "-b", "main");
    await git("add", ".");
    await git("commit", "-qm", "all");
    await git("gc", "-q");
    await fs.writeFile(join(local, "tree/more"), "more");
    await git("add", ".");
    await git("commit", "-qm", "more");
    await fs.rename(join(local, "tree/.git"), join(local, "repository"));
  }

  function makeDatabase(): void {
    using database = new DatabaseSync(join(local, "database"));
    database.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT); BEGIN");
    const insert = database.prepare("INSERT INTO t (text) VALUES (?)");
    for (let n = 0; n < ROWS; n++) insert.run(`row ${n} ${"x".repeat(n % 300)}`);
    database.exec("CREATE INDEX i ON t (text); COMMIT");
  }

  async function upload(name: string): Promise<void> {
    const top = join(local, name);
    const isDirectory = (await fs.stat(top)).isDirectory();
    const found = isDirectory ? await filesBelow(top) : [top];
    for (const path of found) await bucket.put(relative(local, path), await fs.readFile(path));
  }

  /** The program again and again, on a mount of its own, until enough kills fell into its time. */
  async function whileKilled(
    t: TestContext,
    options: readonly string[],
    program: (dir: string, n: number) => Promise<unknown>,
  ): Promise<void> {
    await using mount = await mountShipped(bucket, ["--allow-delete", ...options]);
    const killer = new EngineKiller(mount.engine.child);
    const ends = new AbortController();
    const killing = killer.killServing(KILL_WITHIN_MS, ends.signal);
    let times = 0;
    try {
      while (killer.kills < KILLS_MIN) await program(mount.dir, times++);
    } finally {
      ends.abort();
      await killing;
    }
    t.diagnostic(`${killer.kills} kills, run ${times} times`);
    await killer.untilServing();
    assert.equal((await mount.engine.stop("SIGTERM")).status, 0);
    assert.equal(await bucket.unfinishedUploads(), 0);
  }

  for (const [mode, options] of Object.entries(MODES)) {
    const own = mode.replaceAll(" ", "-");

    test(`${mode}: tar extracts ${TARRED} files`, async (t) => {
      await whileKilled(t, options, async (dir, n) => {
        const target = join(dir, `${own}-tar-${n}`);
        await fs.mkdir(target);
        const tarball = join(local, "tree.tar");
        const args = ["xmf", tarball, "--no-same-permissions", "--no-same-owner", "-C", target];
        const { stderr } = await run("tar", args, { timeout: PROGRAM_LIMIT_MS });
        assert.equal(stderr, "");
        for (const path of await filesBelow(join(local, "tree"))) {
          const name = relative(join(local, "tree"), path);
          if (name === "more") continue;
          const found = await bucket.get(`${own}-tar-${n}/${name}`);
          assert(found.equals(await fs.readFile(path)), name);
        }
      });
    });

    test(`${mode}: git fsck finds nothing wrong`, async (t) => {
      await whileKilled(t, options, async (dir) => {
        const repository = join(dir, "repository");
        const args = ["--git-dir", repository, "fsck", "--full", "--strict", "--no-progress"];
        const { stdout, stderr } = await run("git", args, { timeout: PROGRAM_LIMIT_MS });
        assert.equal(stdout + stderr, "");
      });
    });

    test(`${mode}: find sees every name once`, async (t) => {
      const wanted = (await bucket.keys()).filter((key) => key.startsWith("repository/"));
      await whileKilled(t, options, async (dir) => {
        const { stdout } = await run("find", [join(dir, "repository"), "-type", "f", "-ls"]);
        const found = stdout.trimEnd().split("\n");
        const names = found.map((line) => relative(dir, line.slice(line.indexOf(dir))));
        assert.deepEqual(names.toSorted(), wanted.toSorted());
      });
    });

    test(`${mode}: SQLite answers from a database in the bucket`, async (t) => {
      await whileKilled(t, options, async (dir) => {
        const args = ["--input-type=module", "-e", QUERY, join(dir, "database")];
        const { stdout } = await run(process.execPath, args, { timeout: PROGRAM_LIMIT_MS });
        const { n, found, integrity_check: check } = JSON.parse(stdout) as Record<string, unknown>;
        assert.deepEqual([n, found, check], [ROWS, 1, "ok"]);
      });
    });

    test(`${mode}: fio writes and verifies`, async (t) => {
      await whileKilled(t, options, async (dir, n) => {
        const directory = join(dir, `${own}-fio-${n}`);
        await fs.mkdir(directory);
        await fio(directory, { ...FIO, rw: "write", do_verify: 0, create_on_open: 1 });
        await fio(directory, { ...FIO, rw: "read" });
        await fio(directory, { ...FIO, rw: "randread", direct: 1 });
      });
    });
  }
});

async function filesBelow(top: string): Promise<string[]> {
  const entries = await fs.readdir(top, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => join(entry.parentPath, entry.name));
}
