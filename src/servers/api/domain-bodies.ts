/** The answers of the routes of domains: a domain's DNS records, its route, all its details. */
import { Type } from 'typebox';
import type { DomainDetails } from '../../tenants/domains/domains.ts';
import {
  DomainBody,
  DomainName,
  Instant,
  Integer,
  OneOf,
  RecordId,
  Text,
  writeDomain,
  writerOf,
} from './schemas.ts';

/** What happens to mail of a domain. */
export const ForwardMode = OneOf(['store', 'webhook', 'webhook_then_store', 'forward_email']);

/** What a DNS record is for. */
export const Purpose = OneOf(['mx', 'spf', 'dmarc', 'dkim']);

export const RecordStatus = OneOf(
  ['pending', 'verified', 'failed', 'disabled'],
  '`disabled` by hand alone.',
);

export const DnsRecordBody = Type.Object(
  {
    id: RecordId,
    record_type: OneOf(['MX', 'TXT']),
    host: Text('Relative to the domain, `@` for the domain itself.', '@'),
    expected_value: Text(
      'What to publish; the priority of an MX record is beside it.',
      'mail.localhost',
    ),
    priority: Type.Optional(Integer('Of MX records.', 10)),
    purpose: Purpose,
    status: RecordStatus,
    observed_value: Type.Optional(
      Text(
        'What DNS answered last (`no record` for nothing), or the value that was set by hand.',
        '10 mx.example.net',
      ),
    ),
    detail: Type.Optional(
      Text(
        'The result of the last check, and what to do about it.',
        'Mail goes to mx.example.net: replace the MX records by one that names mail.localhost.',
      ),
    ),
    last_checked_at: Type.Optional(Instant(undefined, '2026-01-31T12:00:30.000Z')),
    last_check: Type.Optional(
      OneOf(
        ['ok', 'missed', 'unanswered'],
        'What the last look found: `ok`, `missed` (nothing, or something else: `observed_value` says what), or `unanswered` (DNS could not be asked, so nothing changed). Absent before the first look, and after the record was set by hand.',
        'missed',
      ),
    ),
    misses: Integer(
      'How many answers in a row did not have the record. A `verified` record with misses is missing now; it becomes `failed` with the third.',
      0,
    ),
    failing_since: Type.Optional(
      Instant('When the first of these answers came.', '2026-01-31T12:00:30.000Z'),
    ),
    key_state: Type.Optional(
      OneOf(
        ['next', 'old'],
        'Of a DKIM record while the key is changed: `next` signs once it is verified, `old` does not sign any more.',
      ),
    ),
    removable_at: Type.Optional(
      Instant(
        'Of an `old` DKIM record: it has to stay in DNS until then.',
        '2026-02-07T12:00:00.000Z',
      ),
    ),
  },
  { title: 'DnsRecord', description: 'A record that the zone of the domain must have.' },
);

const RouteBody = Type.Object(
  {
    domain: DomainName,
    forward_mode: ForwardMode,
    webhook_url: Type.Optional(Type.String({ description: 'Of the webhook modes.' })),
    webhook_secret: Type.Optional(
      Type.String({ description: 'Of the webhook modes, if it is set: shown as it was set.' }),
    ),
    webhook_secret_previous: Type.Optional(
      Type.String({
        description: 'The old `webhook_secret`, for 24 hours after a change: both sign.',
      }),
    ),
    forward_to_email: Type.Optional(Type.String({ description: 'Of `forward_email`.' })),
  },
  {
    title: 'Route',
    description: 'What happens to mail for the domain. Fields of other modes are left out.',
    examples: [{ domain: 'acme.test', forward_mode: 'store' }],
  },
);

export const DetailsBody = Type.Object(
  {
    domain: DomainBody,
    dns: Type.Array(DnsRecordBody),
    route: RouteBody,
    mx: Type.Object(
      {
        host: Text('The mail exchanger of this service.', 'mail.localhost'),
        priority: Type.Integer({ examples: [10] }),
      },
      { title: 'MailExchanger' },
    ),
  },
  { title: 'DomainDetails', description: 'A domain with all that belongs to it.' },
);

export const writeRecord = writerOf(DnsRecordBody);
const writeRoute = writerOf(RouteBody);

export function writeDetails(details: DomainDetails): Type.Static<typeof DetailsBody> {
  return {
    domain: writeDomain(details.domain),
    dns: details.dns.map(writeRecord),
    route: writeRoute(details.route),
    mx: { host: details.mx.host, priority: details.mx.priority },
  };
}
