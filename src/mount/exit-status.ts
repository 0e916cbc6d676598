import type { FailureKind } from "../base/failure.ts";

/** How a mount ended, for whoever started it; the words are for docs/options.md. */
export const EXIT_STATUS = {
  complete: { status: 0, says: "unmounted; every file that was closed is in S3" },
  incomplete: { status: 1, says: "unmounted, and an upload failed; or a bug" },
  badOption: {
    status: 2,
    says: "an option, the region, the bucket's name or the directory is wrong",
  },
  noBucket: { status: 3, says: "there is no such bucket" },
  noAccess: { status: 4, says: "no keys, wrong keys, or no right to list the bucket or to mount" },
  unreachable: { status: 5, says: "the endpoint can't be reached, or does not answer as S3 does" },
} as const;

/** Another engine serves the connection: not to be seen by anybody but its supervisor. */
export const EXIT_FENCED = 70;

const OF_KIND = {
  invalid: "badOption",
  refused: "badOption",
  conflict: "badOption",
  absent: "noBucket",
  denied: "noAccess",
  stale: "unreachable",
  busy: "unreachable",
  timeout: "unreachable",
  remote: "unreachable",
} as const satisfies Record<FailureKind, keyof typeof EXIT_STATUS>;

export function exitStatusOf(kind: FailureKind): number {
  return EXIT_STATUS[OF_KIND[kind]].status;
}
