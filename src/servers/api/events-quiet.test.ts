/** Streams of `GET /v2/events` that have nothing to tell: nobody on the way takes them for dead, and they cost little. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { apiKey, startApi } from '../../../test/support/api/start-api.ts';
import type { EventFeed, EventPage, Events } from '../../tenants/events/events.ts';

const NOTHING = { events: [], cursor: '0', hasMore: false, isHeld: false };

/**
 * The text of a stream that ends after so many waits.
 *
 * @param page what is read each time
 * @param wait of a follower: how long it lasts, and whether something woke it
 */
async function streamed(
  page: EventPage,
  waits: number,
  wait: (ms: number) => { readonly lasts: number; readonly isWoken: boolean },
): Promise<string> {
  let now = 0;
  let done = 0;
  const follower = {
    takeMailboxes: () => [],
    end: () => {},
    wait: async (ms: number) => {
      await turn();
      if (++done > waits) {
        void api.app.close();
        return false;
      }
      const { lasts, isWoken } = wait(ms);
      now += lasts;
      return isWoken;
    },
  };
  const api = await startApi('sqlite', {
    ticks: () => now,
    events: { now: async () => '0', read: async () => page } as unknown as Events,
    feed: { count: () => 0, follow: () => follower } as unknown as EventFeed,
  });
  const headers = { 'x-api-key': apiKey, accept: 'text/event-stream' };
  const response = await fetch(`${api.url}/v2/events?user_id=demo`, { headers });
  return response.text();
}

test('a stream says something every 15 s, also where its user has events all the time that are not for it', async () => {
  const text = await streamed(NOTHING, 50, () => ({ lasts: 1_000, isWoken: true }));
  assert.equal(text, `retry: 1000\nid: 0\n\n${':\n\n'.repeat(3)}`);
});

test('a stream whose events wait for an open transaction says so little, and looks less and less often', async () => {
  const waited: number[] = [];
  const text = await streamed({ ...NOTHING, isHeld: true }, 20, (ms) => {
    waited.push(ms);
    return { lasts: ms, isWoken: false };
  });
  assert.deepEqual(waited.slice(0, 8), [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
  assert.equal(text, `retry: 1000\nid: 0\n\n${':\n\n'.repeat(2)}`);
});
