/** A reporter for Node's test runner: how long the tests of each file took, a line for each file, once all have ended. */
import type { TestEvent } from 'node:test/reporters';

/** What a line of it begins with. */
export const TIME_MARK = '⏱';

export default async function* fileTimes(events: AsyncIterable<TestEvent>) {
  const times = new Map<string, number>();
  /** Of the test that ended last: a suite that a helper declares (`onEachEngine`) is where its tests are. */
  let testFile: string | undefined;
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const isSuite = data.details.type === 'suite';
    if (!isSuite) testFile = data.file;
    const file = (isSuite ? testFile : data.file) ?? '';
    if (data.nesting > 0) continue;
    times.set(file, (times.get(file) ?? 0) + data.details.duration_ms);
  }
  for (const [file, ms] of times) yield `${TIME_MARK} ${Math.round(ms)} ${file}\n`;
}
