import { generateDkimKey, type NewDkimKey } from '../../../src/tenants/domains/dns-records.ts';

let first: Promise<NewDkimKey> | undefined;
let made = 0;

/** A key for a claim of a test: one pair for them all, made once, and a selector for each claim. */
export async function shareDkimKey(): Promise<NewDkimKey> {
  first ??= generateDkimKey({ userId: 'all', organizationId: undefined });
  return { ...(await first), selector: `pr${(made++).toString(36).padStart(10, 'a')}` };
}
