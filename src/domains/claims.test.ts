import assert from 'node:assert/strict';
import { test } from 'node:test';
import { evaluateStatus } from './claims.ts';
import type { DnsRecordStatus } from './dns-records.ts';

const statuses: DnsRecordStatus[] = ['pending', 'verified', 'failed', 'disabled'];

test('a pending claim becomes active when every record is verified or waived, and no rival is', () => {
  for (const a of statuses) {
    for (const b of statuses) {
      for (const c of statuses) {
        for (const d of statuses) {
          const records = [a, b, c, d];
          const good = records.every((one) => one === 'verified' || one === 'disabled');
          const told = records.join();
          assert.equal(
            evaluateStatus('pending', records, false),
            good ? 'active' : 'pending',
            told,
          );
          assert.equal(evaluateStatus('pending', records, true), 'pending', told);
          assert.equal(evaluateStatus('active', records, false), 'active', told);
        }
      }
    }
  }
});
