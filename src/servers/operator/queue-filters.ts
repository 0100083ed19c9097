/** Which deliveries of the queue are meant: the filters that its lists and orders share. */
import { Type } from 'typebox';
import { OPEN_STATES, type OpenState, type QueueFilter, senderOf } from '../../mail/queue/queue.ts';
import type { Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { findAccountsAt } from '../../tenants/accounts/accounts.ts';
import { findClaimIds } from '../../tenants/domains/domains.ts';
import { Integer, OneOf, replaced, Text } from '../api/api.ts';
import { filterText } from './lists.ts';

export const Status = OneOf(
  ['queued', 'held', 'failed'],
  '`queued` waits for its next attempt; `held` waits until it is released or tried again; `failed` has ended.',
);

/** The former name of a status, and its former word for `queued`. */
export const State = Type.Enum(['pending', 'held', 'failed'], {
  type: 'string',
  ...replaced('status'),
});
export type StateName = Type.Static<typeof State>;

export const stateNames: Record<OpenState, StateName> = {
  queued: 'pending',
  held: 'held',
  failed: 'failed',
};
const states: Record<StateName, OpenState> = { pending: 'queued', held: 'held', failed: 'failed' };

export const filterFields = {
  destination: filterText(
    'Origin of a webhook, domain of mail, or address of a mailbox.',
    'https://receiver.example',
    1000,
  ),
  domain: Type.Optional(Type.String({ minLength: 1, maxLength: 255, examples: ['acme.test'] })),
  kind: Type.Optional(
    OneOf(
      ['webhook', 'forward', 'bounce', 'send', 'mailbox', 'copy', 'event'],
      'As in the list of deliveries of a domain.',
    ),
  ),
  status: Type.Optional(Status),
  state: Type.Optional(State),
};

/** A status, or what is in the queue because it waits. */
const Waiting = OneOf(['waiting', ...OPEN_STATES], '`waiting` is `queued` and `held` together.');

const YEAR = 31_536_000;
const seconds = (description: string, example: number) =>
  Type.Optional(Integer(description, example, { minimum: 0, maximum: YEAR }));

/** Where deliveries are counted one by one. */
export const deliveryFields = {
  ...filterFields,
  status: Type.Optional(Waiting),
  q: filterText("A part of the receiver's name.", 'receiver', 255),
  sender: Type.Optional(
    Text(
      'From whom the message is: its reverse-path, empty for bounces. Deliveries from before 0.4.0 do not have it.',
      'ada@acme.test',
      { maxLength: 320 },
    ),
  ),
  reason: filterText(
    'A part of the reason of the last failed attempt, as the lists name it.',
    'greylisted',
    255,
  ),
  older_than: seconds('Only those that were queued at least so many seconds ago.', 3600),
  due_within: seconds('Only those whose next attempt is due within so many seconds.', 600),
  account: filterText(
    'Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries from before 0.4.0 do not have it.',
    'ada@acme.test',
  ),
};

type Asked = Type.Static<Type.TObject<typeof deliveryFields>>;

function statesOf({ status, state }: Asked): readonly OpenState[] | undefined {
  if (status === 'waiting') return ['queued', 'held'];
  const one = status ?? (state && states[state]);
  return one && [one];
}

/** @throws Refusal account_not_found */
export async function filterOf(queries: Queries, asked: Asked, now: EpochMs): Promise<QueueFilter> {
  const { destination, domain, kind, account, q, sender, reason } = asked;
  const { older_than: age, due_within: soon } = asked;
  const claims = domain === undefined ? undefined : await findClaimIds(queries, domain);
  const filter = {
    destination,
    kind,
    reason,
    domainIds: claims,
    states: statesOf(asked),
    receiverPart: q,
    mailFrom: sender?.toLowerCase(),
    before: age === undefined ? undefined : now - age * 1_000,
    dueBefore: soon === undefined ? undefined : now + soon * 1_000,
  };
  if (account === undefined) return filter;
  const owners = await findAccountsAt(queries, account);
  if (owners.length === 0) {
    throw new Refusal('account_not_found', `there is no account ${account}`);
  }
  const meant = owners.filter(({ domainId }) => claims?.includes(domainId) ?? true);
  return {
    ...filter,
    domainIds: meant.map(({ domainId }) => domainId),
    senders: meant.map(senderOf),
  };
}
