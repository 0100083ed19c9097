/** One message: what became of it for each recipient, what can be done now, and all that happened to it. */
import { defineComponent } from 'vue';
import { RouterLink, useRoute } from 'vue-router';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { MessageDelivery, MessageDetails, MessageRecipient } from '../api/types.ts';
import { Card, Copyable, Facts, Failure, Heading, State, When } from '../ui/basics.tsx';
import { Loading } from '../ui/data-table.tsx';
import { count, describeError, formatName } from '../ui/format.ts';
import { StatusOf } from './messages.tsx';
import { askForAction, words } from './queue-actions.tsx';
import { TimeLine } from './time-line.tsx';

const LOOK_EVERY_MS = 15_000;

export const Message = defineComponent(() => {
  const id = String(useRoute().params.id);
  const { data, error, reload } = load(
    () => id,
    (value, signal) => read<MessageDetails>(`/messages/${encodeURIComponent(value)}`, {}, signal),
    LOOK_EVERY_MS,
  );
  return () => (
    <div class="screen">
      <Heading title="One message" lead="What became of it, and what can be done.">
        {() => (
          <button type="button" class="plain" onClick={() => void reload()}>
            Refresh
          </button>
        )}
      </Heading>
      <Failure error={error.value} retry={() => void reload()} />
      {!data.value && !error.value && <Loading />}
      {data.value && <Whole message={data.value} reload={reload} />}
    </div>
  );
});

interface WholeProps {
  readonly message: MessageDetails;
  readonly reload: () => Promise<void>;
}

function Whole({ message, reload }: WholeProps) {
  const { recipients, deliveries, events } = message;
  return (
    <>
      <Card>
        {() => [
          <Facts isAcross={true} facts={factsOf(message)} />,
          <Facts facts={idsOf(message)} />,
        ]}
      </Card>
      <Card title={count(recipients.length, 'recipient')}>
        {() => (
          <ul class="recipients">
            {recipients.map((one) => (
              <Recipient key={one.address ?? ''} recipient={one} />
            ))}
          </ul>
        )}
      </Card>
      {deliveries.length > 0 && (
        <Card title="Deliveries">
          {() => (
            <ul class="recipients">
              {deliveries.map((one) => (
                <Delivery key={one.id} delivery={one} reload={reload} />
              ))}
            </ul>
          )}
        </Card>
      )}
      <Card title="What happened">{() => <TimeLine items={events} />}</Card>
    </>
  );
}

function factsOf(message: MessageDetails): (readonly [string, unknown])[] {
  const { sender, domain, subject, client, node } = message;
  return [
    ['Status', <StatusOf message={message} />],
    ['From', sender === '' ? 'a bounce' : (sender ?? 'unknown')],
    ...(subject === undefined ? [] : ([['Subject', subject]] as const)),
    ['Came', <When at={message.at} exact={true} />],
    ['Domain', domain ? <RouterLink to={`/domains/${domain}`}>{() => domain}</RouterLink> : '–'],
    ['Client', client ?? 'an account'],
    ['Node', node ?? '–'],
  ];
}

function idsOf({ id, message_id: messageId }: MessageDetails): (readonly [string, unknown])[] {
  return [
    ['Id', <Copyable text={id} name="the id" />],
    ['Message-ID', messageId ? <Copyable text={messageId} name="the Message-ID" /> : 'none'],
  ];
}

function Recipient({ recipient }: { recipient: MessageRecipient }) {
  const { address, status, reason, explanation } = recipient;
  return (
    <li>
      <p>
        <State name={status} /> <b>{address ?? 'No recipient was named'}</b>
      </p>
      {explanation && <p>{explanation}</p>}
      {reason && (
        <p class="soft">
          <code>{reason}</code>
        </p>
      )}
    </li>
  );
}

interface DeliveryProps {
  readonly delivery: MessageDelivery;
  readonly reload: () => Promise<void>;
}

function Delivery({ delivery, reload }: DeliveryProps) {
  const { id, kind, destination, status, attempts, actions, last_error: error } = delivery;
  const { next_attempt_at: next, last_attempt_at: last } = delivery;
  // A retry means what waits or failed, unless it says that it means what is held.
  const filter = { ids: [id], ...(status === 'held' && { status }) };
  return (
    <li>
      <p>
        <State name={status} /> {formatName(kind)} to <b>{destination}</b>
        {attempts > 0 && <span class="soft">, {count(attempts, 'attempt')} so far</span>}
      </p>
      {next && (
        <p>
          Attempt {attempts + 1} <When at={next} />.
          {last && last !== next && (
            <>
              {' '}
              Given up about <When at={last} exact={true} />.
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
            class="plain"
            onClick={() => void askForAction(action, filter, `to ${destination}`, reload)}
          >
            {words[action].verb}
          </button>
        ))}
      </div>
    </li>
  );
}
