/** Domains of any user, as operators see them; `GET /v2/operator/domains/:domain`. */
import { Type } from 'typebox';
import { waitingOfDomains } from '../../mail/queue/queue.ts';
import { totalsOfDomains } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { countAccounts } from '../../tenants/accounts/accounts.ts';
import {
  type DnsRecord,
  type Domains,
  findAnyClaim,
  type OperatedDomain,
} from '../../tenants/domains/domains.ts';
import { dayOfDomains, noMail } from '../../tenants/usage/usage.ts';
import {
  type Api,
  contentsOfDomain,
  DnsRecordBody,
  DomainBody,
  DomainName,
  Flag,
  ForwardMode,
  Instant,
  Integer,
  isoTime,
  Purpose,
  RecordStatus,
  replaced,
  UserId,
  writeRecord,
  writerOf,
} from '../api/api.ts';

/** The most accounts of one page whose mail is counted: each has several mailboxes to read. */
const COUNTED_ACCOUNTS = 5_000;

const domainFields = {
  ...DomainBody.properties,
  user_id: UserId,
  suspended: Flag('Whether an operator suspended it.'),
  suspended_at: Type.Optional(Instant()),
  suspend_reason: Type.Optional(Type.String({ description: 'As the operator wrote it.' })),
  forward_mode: ForwardMode,
  route: Type.String({ ...replaced('forward_mode'), examples: ['store'] }),
  accounts: Type.Integer({ examples: [12] }),
  lapsed_at: Type.Optional(
    Instant('When it became `pending` again: its mail is deferred for 5 days, then refused.'),
  ),
  can_receive: Flag(
    'Whether mail for it is taken and finds the way: it is active, not suspended, and its MX record has not failed.',
  ),
  can_send: Flag(
    'Whether its accounts can send: it is active, and its DKIM record is verified. A suspension is not counted.',
  ),
  can_send_since: Type.Optional(
    Instant('Since when `can_send` is what it is; absent where no change was seen yet.'),
  ),
  records_failed: Type.Array(Purpose, {
    description: 'Purposes of the records that are `failed`.',
    examples: [['mx']],
  }),
  records_failed_since: Type.Optional(
    Instant('When the first of them was missed for the first time.'),
  ),
  records_missing: Type.Array(Purpose, {
    description:
      'Purposes of the records that are still `verified`, but were not there at the last look.',
    examples: [['dkim']],
  }),
  next_check_at: Instant('When DNS is asked about its records the next time.'),
  received_24h: Integer('Messages for its accounts, or for no account, in the last 24 hours.', 40),
  sent_24h: Integer('Recipients of mail that it sent or forwarded in the last 24 hours.', 118),
  bounced_24h: Integer(
    'Recipients who did not get its sent or forwarded mail, in the last 24 hours.',
    3,
  ),
  waiting: Integer('Deliveries of its mail, of any kind, that wait or are held.', 2),
  messages: Type.Optional(
    Integer(
      'In the mailboxes of its accounts. Left out in lists of domains with thousands of accounts, and where a mail server has the mailboxes.',
      3400,
    ),
  ),
  bytes: Type.Optional(Integer('Of these messages, in bytes.', 73400320)),
};

export const OperatedDomainBody = Type.Object(domainFields, {
  title: 'OperatedDomain',
  description: 'A domain of any user, as operators see it.',
});

export const Contents = Type.Object(
  {
    accounts: Type.Integer({ examples: [12] }),
    messages: Type.Integer({ examples: [3400] }),
    bytes: Type.Integer({ examples: [73400320] }),
    deliveries: Integer('Deliveries that have not ended.', 2),
  },
  { title: 'DomainContents', description: 'What is deleted together with a domain.' },
);

const DetailsBody = Type.Object(
  {
    ...domainFields,
    dns: Type.Array(DnsRecordBody),
    records: Type.Array(DnsRecordBody, replaced('dns')),
    dkim: Type.Object(
      {
        host: Type.String({ description: 'Where its key is published, relative to the domain.' }),
        status: RecordStatus,
      },
      { title: 'DkimState' },
    ),
    checks: Type.Object(
      {
        last_checked_at: Type.Optional(Instant()),
        not_verified: Type.Array(Purpose, {
          description: 'Purposes of the records that are pending or failed.',
          examples: [['mx']],
        }),
      },
      { title: 'DomainChecks', description: 'The result of the last check.' },
    ),
    would_remove: Contents,
  },
  {
    title: 'OperatedDomainDetails',
    description: 'A domain with its DNS records and its counts.',
  },
);

/** As a client gets it. */
export type OperatedDomainDetails = Type.Static<typeof DetailsBody>;

export interface DomainRouteParts {
  readonly database: Database;
  readonly domains: Domains;
  /** Whether the mailboxes are in our own database, where they can be counted. */
  readonly countsMail: boolean;
  readonly now: () => number;
}

const write = writerOf(OperatedDomainBody);

/** The items for domains, with their contents. */
export async function writeDomains(
  { database, countsMail, now }: Pick<DomainRouteParts, 'database' | 'countsMail' | 'now'>,
  domains: readonly OperatedDomain[],
): Promise<Type.Static<typeof OperatedDomainBody>[]> {
  const ids = domains.map(({ id }) => id);
  const [accounts, mail, waiting] = await Promise.all([
    countAccounts(database.read, ids),
    dayOfDomains(database.read, now(), ids),
    waitingOfDomains(database.read, ids),
  ]);
  let left = countsMail ? COUNTED_ACCOUNTS : -1;
  const counted = domains
    .filter(({ id }) => {
      left -= accounts.get(id) ?? 0;
      return left >= 0;
    })
    .map(({ id }) => id);
  const totals = await totalsOfDomains(database.read, counted);
  return domains.map((domain) => {
    const { health } = domain;
    const { in: received24h, out: sent24h, bounced: bounced24h } = mail.get(domain.id) ?? noMail;
    return write({
      ...domain,
      domain: domain.name,
      suspended: domain.suspendedAt !== undefined,
      route: domain.forwardMode,
      accounts: accounts.get(domain.id) ?? 0,
      canSend: health.canSend,
      canSendSince: health.canSendSince,
      recordsFailed: health.failed,
      recordsMissing: health.missing,
      recordsFailedSince: health.failedSince,
      received24h,
      sent24h,
      bounced24h,
      waiting: waiting.get(domain.id) ?? 0,
      ...(counted.includes(domain.id) && (totals.get(domain.id) ?? { messages: 0, bytes: 0 })),
    });
  });
}

export async function writeOperatedDomain(parts: DomainRouteParts, domain: OperatedDomain) {
  const [written] = await writeDomains(parts, [domain]);
  if (!written) throw new Error('one domain was written as none');
  return written;
}

/** The route that reads one domain. */
export function addDomainDetails(app: Api, parts: DomainRouteParts): void {
  const { database, domains } = parts;
  app.get('/v2/operator/domains/:domain', {
    config: { refusals: ['domain_not_found'] },
    schema: {
      summary: 'Read a domain of any user',
      description:
        'The active claim on the name, or the only one. If several users claim the name, `user_id` names one.',
      operationId: 'getAnyDomain',
      params: Type.Object({ domain: DomainName }),
      querystring: Type.Object({ user_id: Type.Optional(UserId) }),
      response: { 200: DetailsBody },
    },
    handler: async ({ params, query }) => {
      const domain = await findAnyClaim(database.read, params.domain, query.user_id);
      const { dns } = await domains.get(domain.userId, domain.name);
      const written = await writeOperatedDomain(parts, domain);
      const would_remove = await contentsOfDomain(database.read, domain.id);
      return { ...written, ...writeDns(dns), would_remove };
    },
  });
}

function writeDns(dns: readonly DnsRecord[]) {
  const inForce = dns.filter(({ keyState }) => keyState === undefined);
  const dkim = inForce.find(({ purpose }) => purpose === 'dkim');
  const checked = dns.flatMap(({ lastCheckedAt }) => lastCheckedAt ?? []);
  const written = dns.map(writeRecord);
  return {
    dns: written,
    records: written,
    dkim: { host: dkim?.host ?? '', status: dkim?.status ?? 'pending' },
    checks: {
      ...(checked.length > 0 && { last_checked_at: isoTime(Math.max(...checked)) }),
      not_verified: inForce
        .filter(({ status }) => status === 'pending' || status === 'failed')
        .map(({ purpose }) => purpose),
    },
  };
}
