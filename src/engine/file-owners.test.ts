import assert from "node:assert/strict";
import { test } from "node:test";
import type { OwnerRecord } from "../journal/record.ts";
import { FileOwners } from "./file-owners.ts";
import type { OwnerRole } from "./file-owners.ts";

const OPENER_PID = 10;
/** Whether a file can be written on after it has been completed: a small one can. */
const [SMALL, LARGE] = [true, false];
const [PROCESS, CHILD, OTHER_CHILD] = ["a.1", "b.2", "c.3"];

const ownersOf = (noted: [string, OwnerRole][] = []) =>
  new FileOwners(OPENER_PID, (owner, role) => void noted.push([owner, role]));

test("a close by another thread of the process that wrote ends the file", () => {
  const owners = ownersOf();
  owners.wrote(PROCESS, 11);
  assert.equal(owners.isEndedBy(PROCESS, 12, LARGE), true);
});

test("a forked child that closes its inherited copy does not end the parent's file", () => {
  const owners = ownersOf();
  owners.wrote(PROCESS, OPENER_PID);
  assert.equal(owners.isEndedBy(CHILD, 20, LARGE), false);
  assert.equal(owners.isEndedBy(PROCESS, OPENER_PID, LARGE), true);
});

test("a shell's commands don't end the file that the shell opened for all of them", () => {
  const owners = ownersOf();
  owners.isEndedBy(PROCESS, OPENER_PID, LARGE); // dup2(2) and close(2), before any command runs
  for (const [child, pid] of [
    [CHILD, 20],
    [OTHER_CHILD, 21],
  ] as const) {
    owners.wrote(child, pid);
    assert.equal(owners.isEndedBy(child, pid, LARGE), false);
  }
  assert.equal(owners.isEndedBy(PROCESS, OPENER_PID, LARGE), true);
});

test("an opener that is not known is taken for the process that writes first", () => {
  const owners = ownersOf();
  owners.wrote(PROCESS, 11);
  assert.equal(owners.isEndedBy(CHILD, 20, LARGE), false, "nothing was written by the child");
  assert.equal(owners.isEndedBy(PROCESS, 12, LARGE), true);
});

test("commands of a program that only opened the file don't end it", () => {
  const owners = ownersOf();
  for (const [child, pid] of [
    [CHILD, 20],
    [OTHER_CHILD, 21],
  ] as const) {
    assert.equal(owners.isEndedBy(child, pid, LARGE), false, "the copy that exec closes");
    owners.wrote(child, pid);
    assert.equal(owners.isEndedBy(child, pid, LARGE), false, "the copy that it has written to");
  }
  assert.equal(owners.isEndedBy(PROCESS, OPENER_PID, LARGE), true);
});

test("commands that such a command starts don't end it either", () => {
  const owners = ownersOf();
  owners.isEndedBy(CHILD, 20, LARGE);
  owners.wrote(OTHER_CHILD, 21);
  assert.equal(owners.isEndedBy(OTHER_CHILD, 21, LARGE), false);
  assert.equal(owners.isEndedBy(OTHER_CHILD, 21, SMALL), true, "it may be the program itself");
});

test("a process that wrote before it started a command ends the file", () => {
  const owners = ownersOf();
  owners.wrote(PROCESS, 11);
  assert.equal(owners.isEndedBy(CHILD, 20, LARGE), false);
  owners.wrote(CHILD, 20);
  assert.equal(owners.isEndedBy(CHILD, 20, LARGE), false);
  assert.equal(owners.isEndedBy(PROCESS, 12, LARGE), true);
});

test("a process without a number in the connection's namespace is not the opener", () => {
  const owners = new FileOwners(0, () => undefined);
  assert.equal(owners.isEndedBy(CHILD, 0, LARGE), false);
  const others = new FileOwners(0, () => undefined);
  others.wrote(PROCESS, 0);
  assert.equal(others.isEndedBy(CHILD, 0, LARGE), false);
  assert.equal(others.isEndedBy(PROCESS, 0, LARGE), true);
});

test("a file that is inherited for ever does not fill the journal", () => {
  const noted: [string, OwnerRole][] = [];
  const owners = ownersOf(noted);
  for (let n = 0; n < 10_000; n++)
    assert.equal(owners.isEndedBy(`child.${n}`, 20 + n, LARGE), false);
  assert.equal(noted.length, 256);
});

test("a successor knows what was noted", () => {
  const noted: [string, OwnerRole][] = [];
  const owners = ownersOf(noted);
  owners.wrote(CHILD, 20);
  owners.wrote(CHILD, 20);
  owners.isEndedBy(OTHER_CHILD, 21, LARGE);
  const heir = recordsOf(noted);
  owners.isEndedBy(PROCESS, OPENER_PID, LARGE);
  assert.deepEqual(noted, [
    [CHILD, "writer"],
    [OTHER_CHILD, "heir"],
    [PROCESS, "opener"],
  ]);
  const next = new FileOwners(OPENER_PID, () => undefined, recordsOf(noted));
  assert.equal(next.isEndedBy(CHILD, 20, LARGE), false);
  assert.equal(next.isEndedBy(PROCESS, 99, LARGE), true);
  const earlier = new FileOwners(OPENER_PID, () => undefined, heir);
  earlier.wrote(OTHER_CHILD, 21);
  assert.equal(earlier.isEndedBy(OTHER_CHILD, 21, LARGE), false);
});

function recordsOf(noted: readonly [string, OwnerRole][]): OwnerRecord[] {
  return noted.map(([owner, role]) => ({
    is: "owner",
    handle: 1,
    owner,
    opened: role === "opener" ? true : undefined,
    inherited: role === "heir" ? true : undefined,
    optional: true,
  }));
}
