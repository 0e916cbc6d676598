import { Random } from "./soak-random.ts";

/** S3 calls, as far as faults tell them apart. `list` includes lists of uploads and parts. */
export const REQUEST_KINDS = [
  "get",
  "head",
  "list",
  "put",
  "delete",
  "create",
  "part",
  "complete",
  "abort",
] as const;
export type RequestKind = (typeof REQUEST_KINDS)[number];

const ANY_FAULTS = ["drop the request", "lose the answer", "delay", "500", "503"] as const;
/** Another ETag comes with bytes alone: where there are none no client could notice the lie. */
const BODY_FAULTS = ["truncate", "wrong ETag"] as const;
/** Longer than a program that is interrupted waits for S3. */
const STALL = "stall";
export const SOAK_FAULTS = [...ANY_FAULTS, ...BODY_FAULTS, STALL] as const;
export type SoakFault = (typeof SOAK_FAULTS)[number];

interface Storm {
  readonly fromMs: number;
  readonly toMs: number;
  readonly kind: RequestKind | "any";
  readonly fault: SoakFault;
}

/** Single faults all the time: retries hide them from programs. */
const SINGLE_SHARE = 0.04;
/** So many answers with an object's bytes apart, one has a fault that only they can have. */
const BODY_FAULT_EVERY = 6;
/** Each fault comes once before chance decides: to one request of so many. */
const DEAL_EVERY = 4;
/** Requests that a program waits for while it holds a name. They stall in turns. */
const STALLED_KINDS = ["delete", "put", "head"] as const;
const STALL_PAUSE_MS = 1_000;
export const STALL_MS = 3_000;
/** Requests of one kind fail for so long: more than all attempts take, so programs see errors. */
const STORM_MS = [300, 2_500] as const;
const PAUSE_MS = [200, 2_000] as const;
/** Of everything, for less than the outage limit: programs see a pause. */
const OUTAGE_MS = [200, 700] as const;
const OUTAGE_SHARE = 0.15;
const OUTAGE_FAULTS = ["drop the request", "503"] as const;
const STORM_FAULTS = ["drop the request", "lose the answer", "500", "503"] as const;
const DELAY_MS = [10, 400] as const;

/** A plan of faults, made from a seed before the soak begins. */
export class SoakFaults {
  readonly counts = new Map<SoakFault, number>();
  readonly #random: Random;
  readonly #storms: readonly Storm[];
  readonly #due: SoakFault[] = [...ANY_FAULTS, ...BODY_FAULTS];
  #requests = 0;
  #gets = 0;
  #singles = 0;
  #stalls = 0;
  #stalledMs = -Infinity;
  /** Undefined before the soak and after it: then S3 is in order. */
  #startedMs: number | undefined;

  constructor(seed: number, durationMs: number) {
    this.#random = new Random(seed);
    this.#storms = [...stormsOf(this.#random, durationMs)];
  }

  begin(): void {
    this.#startedMs = performance.now();
  }

  end(): void {
    this.#startedMs = undefined;
  }

  decide(kind: RequestKind): SoakFault | undefined {
    if (this.#startedMs === undefined) return undefined;
    const fault = this.#draw(kind, performance.now() - this.#startedMs);
    if (fault === undefined) return undefined;
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
    return fault;
  }

  get delayMs(): number {
    return this.#random.between(...DELAY_MS);
  }

  #draw(kind: RequestKind, nowMs: number): SoakFault | undefined {
    const sure = this.#deal(kind) ?? this.#stall(kind, nowMs);
    if (sure !== undefined) return sure;
    const storm = this.#storms.find(({ fromMs, toMs }) => fromMs <= nowMs && nowMs < toMs);
    if (storm !== undefined && (storm.kind === "any" || storm.kind === kind)) return storm.fault;
    if (kind === "get" && ++this.#gets % BODY_FAULT_EVERY === 0) {
      return BODY_FAULTS[(this.#gets / BODY_FAULT_EVERY) % BODY_FAULTS.length];
    }
    if (!this.#random.chance(SINGLE_SHARE)) return undefined;
    return ANY_FAULTS[this.#singles++ % ANY_FAULTS.length];
  }

  /** A run on a slow machine meets each fault, too, whatever its storms are. */
  #deal(kind: RequestKind): SoakFault | undefined {
    if (this.#due.length === 0 || ++this.#requests % DEAL_EVERY !== 0) return undefined;
    const at = this.#due.findIndex((fault) => fits(fault, kind));
    return at === -1 ? undefined : this.#due.splice(at, 1)[0];
  }

  #stall(kind: RequestKind, nowMs: number): SoakFault | undefined {
    const isNext = kind === STALLED_KINDS[this.#stalls % STALLED_KINDS.length];
    if (!isNext || nowMs < this.#stalledMs + STALL_PAUSE_MS) return undefined;
    this.#stalls += 1;
    this.#stalledMs = nowMs;
    return STALL;
  }
}

/** Faults of a body fit requests for one alone. */
function fits(fault: SoakFault, kind: RequestKind): boolean {
  return kind === "get" || !BODY_FAULTS.some((one) => one === fault);
}

function* stormsOf(random: Random, durationMs: number): Generator<Storm, void, undefined> {
  for (let fromMs = random.between(...PAUSE_MS); fromMs < durationMs;) {
    const isOutage = random.chance(OUTAGE_SHARE);
    const [minMs, maxMs] = isOutage ? OUTAGE_MS : STORM_MS;
    const toMs = fromMs + random.between(minMs, maxMs);
    const fault = random.pick(isOutage ? OUTAGE_FAULTS : STORM_FAULTS);
    yield { fromMs, toMs, kind: isOutage ? "any" : random.pick(REQUEST_KINDS), fault };
    fromMs = toMs + random.between(...PAUSE_MS);
  }
}
