import { markdownTable } from "../../../src/base/markdown-table.ts";
import type { Figures } from "../part.ts";
import { shortOf } from "../report.ts";

interface Aim {
  readonly title: string;
  readonly figure: string;
  readonly unit: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** Case → what it is, in a person's words. */
export const TITLES = {
  read1: "sequential read of 1 GiB",
  read4: "4 files of 256 MiB at once",
  write: "sequential write of 1 GiB",
  rand1: "random 4 KiB reads, 1 job",
  rand4: "random 4 KiB reads, 4 jobs",
  ls: "`ls -l` of 10,000 objects",
  find: "`find` over 100 × 100 objects",
  small: "500 files of 4 KiB: create, read",
  mount: "start to first stat; idle",
} as const;

const AIMS: readonly Aim[] = [
  { title: TITLES.read1, figure: "read1_vs_s3fs", unit: "× s3fs", atLeast: 2 },
  { title: TITLES.read1, figure: "read1_cpu_s", unit: "CPU s", atMost: 0.8 },
  { title: TITLES.read1, figure: "read1_rss_mb", unit: "MB", atMost: 200 },
  { title: TITLES.read4, figure: "read4_vs_s3fs", unit: "× s3fs", atLeast: 2 },
  { title: TITLES.write, figure: "write_vs_s3fs", unit: "× s3fs", atLeast: 2.2 },
  { title: TITLES.write, figure: "write_cpu_s", unit: "CPU s", atMost: 1 },
  { title: TITLES.write, figure: "write_rss_mb", unit: "MB", atMost: 250 },
  { title: TITLES.rand1, figure: "rand1_vs_rclone", unit: "× rclone", atLeast: 3 },
  { title: TITLES.rand4, figure: "rand4_vs_rclone", unit: "× rclone", atLeast: 3 },
  {
    title: "fetched for one of them",
    figure: "rand_fetched_kib_per_read",
    unit: "KiB",
    atMost: 128,
  },
  { title: TITLES.ls, figure: "ls_vs_s3fs", unit: "× s3fs", atLeast: 7 },
  { title: TITLES.ls, figure: "ls_vs_bare", unit: "× the bare LIST calls", atMost: 1.5 },
  { title: TITLES.find, figure: "find_vs_s3fs", unit: "× s3fs", atLeast: 8 },
  { title: TITLES.find, figure: "find_vs_bare", unit: "× the bare LIST calls", atMost: 1.5 },
  { title: TITLES.small, figure: "small_vs_s3fs", unit: "× s3fs", atLeast: 2 },
  { title: TITLES.mount, figure: "mount_s", unit: "s", atMost: 0.15 },
  { title: TITLES.mount, figure: "mount_rss_mb", unit: "MB", atMost: 80 },
];

/** What was wished for beside what was measured. `×` s3fs and rclone: times as fast. */
export function aimTable(figures: Figures): string {
  const rows = AIMS.map((aim) => {
    const value = figures[aim.figure];
    const bound = aim.atLeast === undefined ? `≤ ${aim.atMost}` : `≥ ${aim.atLeast}`;
    const shown = value === undefined ? "not measured" : `${shortOf(value)} ${aim.unit}`;
    return [aim.title, shown, `${bound} ${aim.unit}`, met(aim, value)];
  });
  const lines = markdownTable(["Case", "Measured", "Aim", "Met"], rows);
  return `${lines.join("\n")}\n`;
}

function met({ atLeast = 0, atMost = Infinity }: Aim, value: number | string | undefined): string {
  return typeof value === "number" && value >= atLeast && value <= atMost ? "yes" : "**no**";
}
