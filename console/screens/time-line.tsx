/** What became of one message: from the connection to the mailbox, webhook or bounce. */
import { defineComponent } from 'vue';
import { useRoute } from 'vue-router';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { TraceItem } from '../api/types.ts';
import { Card, Empty, Facts, Failure, Heading, State, When } from '../ui/basics.tsx';
import { Loading } from '../ui/data-table.tsx';
import { formatSpan } from '../ui/format.ts';
import { toneOfEvent } from './mail.tsx';

export const TimeLine = defineComponent(() => {
  const id = String(useRoute().params.id);
  const { data, error, reload } = load(
    () => id,
    (value, signal) =>
      read<{ items: readonly TraceItem[] }>(`/trace/${encodeURIComponent(value)}`, {}, signal),
  );
  return () => (
    <div class="screen">
      <Heading title="One message" lead="What happened to it, the oldest first.">
        {() => (
          <button type="button" class="plain" onClick={() => void reload()}>
            Refresh
          </button>
        )}
      </Heading>
      <Failure error={error.value} retry={() => void reload()} />
      {!data.value && !error.value && <Loading />}
      {data.value && <Line id={id} items={data.value.items} />}
    </div>
  );
});

function Line({ id, items }: { id: string; items: readonly TraceItem[] }) {
  const [first] = items;
  if (!first) {
    return <Empty title="No trace of this message">{() => 'Its trace is no longer kept.'}</Empty>;
  }
  const messageId = items.find(({ message_id }) => message_id)?.message_id;
  return (
    <>
      <Card>
        {() => (
          <Facts
            isAcross={true}
            facts={[
              ['Id', <code>{id}</code>],
              ['Message-ID', messageId ? <code>{messageId}</code> : 'none'],
              ['From', first.sender === '' ? 'a bounce' : (first.sender ?? 'unknown')],
              ['Client', first.client ?? 'this server'],
            ]}
          />
        )}
      </Card>
      <Card>
        {() => (
          <ol class="time-line">
            {items.map((item, index) => (
              <Step key={`${item.at} ${index}`} item={item} start={first.at} />
            ))}
          </ol>
        )}
      </Card>
    </>
  );
}

function Step({ item, start }: { item: TraceItem; start: string }) {
  const after = (Date.parse(item.at) - Date.parse(start)) / 1000;
  const { delivery_id: delivery, webhook_id: webhook } = item;
  return (
    <li>
      <p class="when">
        <When at={item.at} exact={true} />
        <span class="soft">
          {after === 0 ? 'start' : `+${after < 1 ? '<1 s' : formatSpan(after)}`}
        </span>
      </p>
      <div class="what">
        <p>
          <State name={item.event} tone={toneOfEvent(item)} /> {item.status}
          {item.recipient && (
            <>
              {' '}
              <b>{item.recipient}</b>
            </>
          )}
        </p>
        {item.detail && <p>{item.detail}</p>}
        <p class="soft small">
          {[
            delivery !== undefined && `delivery ${delivery}`,
            webhook && `webhook ${webhook}`,
            item.node && `on ${item.node}`,
          ]
            .filter(Boolean)
            .join(', ')}
        </p>
      </div>
    </li>
  );
}
