/** One message beside the list: what became of it for each recipient, what can be done now, and all that happened to it. */
import { defineComponent } from 'vue';
import { type RouteLocationRaw, RouterLink } from 'vue-router';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { MessageDelivery, MessageDetails, MessageRecipient } from '../api/types.ts';
import { Copyable, Facts, Failure, State, When } from '../ui/basics.tsx';
import { Loading } from '../ui/data-table.tsx';
import { Drawer } from '../ui/dialogs.tsx';
import { count, describeError, formatBytes, formatKnown, formatName } from '../ui/format.ts';
import { askToBlock, liftSuppression } from './message-actions.tsx';
import { StatusOf } from './message-list.tsx';
import { askForAction, words } from './queue-actions.tsx';
import { rewrite } from './queue-search.ts';
import { TimeLine } from './time-line.tsx';

const LOOK_EVERY_MS = 15_000;

interface DrawerProps {
  /** Of the message, or of one of its deliveries. */
  id: string;
  close: () => void;
}

export const MessageDrawer = defineComponent(
  (props: DrawerProps) => {
    const { data, error, reload } = load(
      () => props.id,
      async (id, signal) => ({
        id,
        message: await read<MessageDetails>(`/messages/${encodeURIComponent(id)}`, {}, signal),
      }),
      LOOK_EVERY_MS,
    );
    /** The link of the message that was shown last; without one, the heading of the list. */
    const returnFocus = () => {
      const link = `main td a[href*="/messages/${CSS.escape(props.id)}"]`;
      const place = document.querySelector<HTMLElement>(link) ?? document.querySelector('h1');
      (place as HTMLElement | null)?.focus();
    };
    return () => {
      // Until the next one is there, nothing is shown in place of the one before: its buttons would be pressed.
      const message = data.value?.id === props.id ? data.value.message : undefined;
      return (
        <Drawer
          title={message ? titleOf(message) : 'Message'}
          close={props.close}
          returnFocus={returnFocus}
        >
          {() => [
            <Failure error={error.value} retry={() => void reload()} />,
            !message && !error.value && <Loading />,
            message && <Whole message={message} reload={reload} />,
          ]}
        </Drawer>
      );
    };
  },
  { props: ['id', 'close'] },
);

function titleOf({ subject, recipients: [first] }: MessageDetails): string {
  return subject || `To ${first?.address ?? 'no recipient'}`;
}

interface WholeProps {
  readonly message: MessageDetails;
  readonly reload: () => Promise<void>;
}

function Whole({ message, reload }: WholeProps) {
  const { recipients, deliveries, events } = message;
  return (
    <>
      <Facts facts={factsOf(message)} />
      <Actions message={message} />
      <section aria-label="Recipients">
        <h3>{count(recipients.length, 'recipient')}</h3>
        <ul class="recipients">
          {recipients.map((one) => (
            <Recipient key={one.address ?? ''} recipient={one} message={message} reload={reload} />
          ))}
        </ul>
      </section>
      {deliveries.length > 0 && (
        <section aria-label="Deliveries">
          <h3>{count(deliveries.length, 'delivery', 'deliveries')}</h3>
          <ul class="recipients">
            {deliveries.map((one) => (
              <Delivery key={one.id} delivery={one} reload={reload} />
            ))}
          </ul>
        </section>
      )}
      <section aria-label="What happened">
        <h3>What happened</h3>
        <TimeLine items={events} />
      </section>
      <details>
        <summary>Ids and where it came from</summary>
        <Facts facts={idsOf(message)} />
      </details>
    </>
  );
}

const link = (text: string, to: RouteLocationRaw) => <RouterLink to={to}>{() => text}</RouterLink>;

function factsOf(message: MessageDetails): (readonly [string, unknown])[] {
  const { sender, domain, subject, size, direction } = message;
  const from = sender === '' ? 'a bounce' : (sender ?? 'unknown');
  return [
    ['Status', <StatusOf message={message} />],
    [
      'From',
      direction === 'out' && sender
        ? link(from, { path: '/accounts', query: { q: sender } })
        : from,
    ],
    ...(subject === undefined ? [] : ([['Subject', subject]] as const)),
    [direction === 'out' ? 'Sent' : 'Came', <When at={message.at} exact={true} />],
    ['Size', formatKnown(size, formatBytes)],
    ['Domain', domain ? link(domain, `/domains/${domain}`) : '–'],
  ];
}

function idsOf({ id, client, node, ...message }: MessageDetails): (readonly [string, unknown])[] {
  const { message_id: messageId } = message;
  return [
    ['Id', <Copyable text={id} name="the id" />],
    ['Message-ID', messageId ? <Copyable text={messageId} name="the Message-ID" /> : 'none'],
    ['Link', <Copyable text={`${location.origin}/console/messages/${id}`} name="the link" />],
    ['Client', client ?? 'an account'],
    ['Node', node ?? '–'],
  ];
}

/** What can be done about its sender. */
function Actions({ message: { direction, sender, client } }: { message: MessageDetails }) {
  if (direction !== 'in' || !sender) return null;
  return (
    <p class="buttons">
      <button type="button" class="danger" onClick={() => askToBlock(sender, client)}>
        Block sender
      </button>
    </p>
  );
}

function Recipient({ recipient, message, reload }: WholeProps & { recipient: MessageRecipient }) {
  const { address, status, reason, explanation, suppressed } = recipient;
  const account = { path: '/accounts', query: { q: address ?? '' } };
  return (
    <li>
      <p>
        <State name={status} />{' '}
        <b>
          {address === undefined
            ? 'No recipient was named'
            : message.direction === 'in' && status !== 'refused'
              ? link(address, account)
              : address}
        </b>
      </p>
      {explanation && <p>{explanation}</p>}
      {reason && (
        <p class="soft">
          <code>{reason}</code>
        </p>
      )}
      {suppressed && address && message.domain && (
        <div class="buttons">
          <button
            type="button"
            class="plain"
            onClick={() => void liftSuppression(message.domain ?? '', address, reload)}
          >
            Lift suppression
          </button>
        </div>
      )}
    </li>
  );
}

interface DeliveryProps {
  readonly delivery: MessageDelivery;
  readonly reload: () => Promise<void>;
}

/** The deliveries at the same receiver. */
const receiverOf = (destination: string) => ({
  path: '/queue/deliveries',
  query: { q: rewrite({ terms: [], words: [] }, { to: destination }) },
});

function Delivery({ delivery, reload }: DeliveryProps) {
  const { id, kind, destination, status, attempts, actions, last_error: error } = delivery;
  const { next_attempt_at: next, last_attempt_at: last } = delivery;
  // A retry means what waits or failed, unless it says that it means what is held.
  const filter = { ids: [id], ...(status === 'held' && { status }) };
  return (
    <li>
      <p>
        <State name={status} /> {formatName(kind)} to{' '}
        <b>{link(destination, receiverOf(destination))}</b>
        {attempts > 0 && <span class="soft">, {count(attempts, 'attempt')} so far</span>}
      </p>
      {next && (
        <p>
          Attempt {attempts + 1} <When at={next} />.
          {last && last !== next && (
            <>
              {' '}
              Given up about <When at={last} exact={true} />
              {kind === 'send' || kind === 'forward' ? ', then the sender is told.' : '.'}
            </>
          )}
        </p>
      )}
      {error && status !== 'delivered' && (
        <p class="soft">
          <code>{describeError(error)}</code>
        </p>
      )}
      <div class="buttons">
        {actions.map((action) => (
          <button
            key={action}
            type="button"
            class={action === 'drop' ? 'danger' : 'plain'}
            onClick={() => void askForAction(action, filter, `to ${destination}`, reload)}
          >
            {words[action].verb}
          </button>
        ))}
      </div>
    </li>
  );
}
