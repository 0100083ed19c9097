/** `GET /v2/operator/accounts/:id`: what one account does, and what of its mail waits. */
import { Type } from 'typebox';
import { type WaitingReason, waitingReasons } from '../../mail/queue/queue.ts';
import { SEND, topReceivers } from '../../mail/sending/sending.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs, HOUR_MS, startOf } from '../../platform/time/time.ts';
import { findOperated, listSignIns } from '../../tenants/accounts/accounts.ts';
import {
  type HourSums,
  hoursOfAccount,
  noMail,
  type SenderHour,
} from '../../tenants/usage/usage.ts';
import {
  type Api,
  Instant,
  Integer,
  isoTime,
  LastError,
  OneOf,
  RecordId,
  Text,
  writerOf,
} from '../api/api.ts';
import { type AccountRouteParts, accountFields, writeAccounts } from './account-items.ts';

const HOURS = 24;
const DAYS = 8;
/** Receivers, reasons and clients that are shown; the receivers of how long. */
const SHOWN = 10;
const RECEIVERS_MS = 7 * DAY_MS;

const SpanBody = Type.Object(
  {
    at: Instant('When it begins.'),
    sent: Integer('Recipients of its mail.', 12),
    received: Type.Integer({ examples: [4] }),
    bounced: Type.Integer({ examples: [1] }),
    refused: Type.Integer({ examples: [0] }),
  },
  { title: 'AccountSpan', description: 'Mail of an account in an hour or a day.' },
);

const ReasonBody = Type.Object(
  {
    status: OneOf(['queued', 'held']),
    destination: Type.String({ examples: ['example.org'] }),
    last_error: Type.Optional(LastError),
    count: Type.Integer({ examples: [2] }),
    oldest_at: Instant('When the oldest of them was queued.'),
  },
  { title: 'WaitingReason' },
);

const DetailsBody = Type.Object(
  {
    ...accountFields,
    hours: Type.Array(SpanBody, { description: 'The last 24 hours, the oldest first.' }),
    days: Type.Array(SpanBody, { description: 'The last 8 days (UTC), the oldest first.' }),
    receivers: Type.Array(
      Type.Object(
        {
          domain: Type.String({ examples: ['example.org'] }),
          recipients: Type.Integer({ examples: [80] }),
          bounced: Type.Integer({ examples: [2] }),
        },
        { title: 'AccountReceiver' },
      ),
      {
        description:
          'The mail domains that it wrote to most in 7 days, of its newest 5,000 recipients.',
      },
    ),
    waiting_reasons: Type.Array(ReasonBody, {
      description: 'Why its mail waits: the most frequent receivers and answers.',
    }),
    sign_ins: Type.Array(
      Type.Object(
        {
          client: Text('An IPv4 address, or an IPv6 /64.', '192.0.2.1'),
          at: Instant('Accurate to a day.'),
        },
        { title: 'SignIn' },
      ),
      { description: 'The clients that signed in with its password last.' },
    ),
  },
  { title: 'OperatedAccountDetails', description: 'An account, and what it does.' },
);

export function addAccountDetails(app: Api, parts: AccountRouteParts): void {
  const { database, now } = parts;
  app.get('/v2/operator/accounts/:id', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: 'Read an account of any user',
      description: 'With what it sent, received and bounced, and why its mail waits.',
      operationId: 'getAnyAccount',
      params: Type.Object({ id: RecordId }),
      response: { 200: DetailsBody },
    },
    handler: async ({ params: { id } }) => {
      const { read } = database;
      // All numbers of the answer are of one instant: in another hour, the sum would not be that of the hours.
      const at = now();
      const [account] = await findOperated(database, [id]);
      const [written] = account ? await writeAccounts(parts, [account], at) : [];
      if (!account || !written) throw new Refusal('account_not_found', `there is no account ${id}`);
      const { domainId, userId } = account;
      const owner = { accountId: id, domainId, userId };
      const [hours, receivers, reasons, signIns] = await Promise.all([
        hoursOfAccount(read, at, account),
        topReceivers(read, id, at - RECEIVERS_MS, SHOWN),
        waitingReasons(read, SEND, owner, SHOWN),
        listSignIns(read, id, SHOWN),
      ]);
      return {
        ...written,
        hours: spansOf(hours, HOUR_MS, HOURS, at),
        days: spansOf(hours, DAY_MS, DAYS, at),
        receivers,
        waiting_reasons: reasons.map(writeReason),
        sign_ins: signIns.map(({ client, at }) => ({ client, at: isoTime(at) })),
      };
    },
  });
}

/** The mail of each of the last spans of time, also of those without any. */
function spansOf(hours: readonly SenderHour[], size: number, count: number, now: EpochMs) {
  const last = startOf(size, now);
  const bySpan = Map.groupBy(hours, ({ hour }) => startOf(size, hour));
  return Array.from({ length: count }, (_, index) => {
    const at = last - (count - 1 - index) * size;
    const sum = (bySpan.get(at) ?? []).reduce<HourSums>(
      (before, one) => ({
        in: before.in + one.in,
        out: before.out + one.out,
        bounced: before.bounced + one.bounced,
        refused: before.refused + one.refused,
      }),
      noMail,
    );
    const { in: received, out: sent, bounced, refused } = sum;
    return { at: isoTime(at), sent, received, bounced, refused };
  });
}

const writeReasonOf = writerOf(ReasonBody);

function writeReason(reason: WaitingReason) {
  return writeReasonOf({ ...reason, status: reason.state, lastError: reason.error });
}
