import { Failure } from "../base/failure.ts";
import { AttributeFailure } from "./attribute-failure.ts";

const BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const DECIMAL = ["k", "M", "G", "T", "P", "E"];
const FACTORS: ReadonlyMap<string, number> = new Map([
  ["", 1],
  ["m", 0.001],
  ...BINARY.map((unit, i) => [unit, 1024 ** (i + 1)] as const),
  ...DECIMAL.map((unit, i) => [unit, 1000 ** (i + 1)] as const),
]);
export const QUANTITY_RULE = "use a quantity above zero, such as 512Mi, 2Gi or 100m";
const QUANTITY = /^(\d+\.?\d*|\.\d+)([eE][+-]?\d+|m|[KMGTPE]i|[kMGTPE])?$/;

/** The worth of a Kubernetes quantity above zero: 512Mi, 1.5G, 100m, 1e9. */
export function parseQuantity(field: string, text: string): number {
  const value = valueOf(text);
  if (value > 0) return value;
  throw new Failure("invalid", `${field} ${wrong(text)}`);
}

/** Parses a quantity that a volumeAttribute holds. */
export function parseAttributeQuantity(attribute: string, text: string): number {
  const value = valueOf(text);
  if (value > 0) return value;
  throw new AttributeFailure(attribute, `${attribute} ${wrong(text)}`);
}

function valueOf(text: string): number {
  const [, digits, unit = ""] = QUANTITY.exec(text) ?? [];
  const factor = /^[eE][+-]?\d/.test(unit) ? Number(`1${unit}`) : FACTORS.get(unit);
  return Number(digits ?? "0") * (factor ?? 0);
}

function wrong(text: string): string {
  return `is ${JSON.stringify(text)}: ${QUANTITY_RULE}`;
}
