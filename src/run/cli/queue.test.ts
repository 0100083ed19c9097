/** What an operator is told before an order on many deliveries. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeFound } from './queue.ts';

test('an order that is only counted says in words what would stay as it is', () => {
  const parts = {
    statuses: [{ status: 'queued' as const, count: 3 }],
    domains: [{ domain: 'acme.test', count: 3 }],
    reasons: [{ count: 1 }, { reason: '451 greylisted', count: 2 }],
  };
  const text = describeFound({ parts, skipped: { not_kept: 2, other: 1 } });
  assert.match(text, /^\nstatuses:\nstatus +count\nqueued +3\n\ndomains:\n/);
  assert.match(text, /^451 greylisted +2$|^2 +451 greylisted$/m);
  assert.match(text, /\n2 not changed: .+\(DELIVERY_BODY_HOURS\)\.\n1 not changed: other$/);
});

test('where nothing fits, there is nothing to tell', () => {
  assert.equal(describeFound({ parts: { statuses: [], domains: [], reasons: [] } }), '');
  assert.equal(describeFound({}), '');
});
