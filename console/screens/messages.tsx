/** All messages, found by one box; one of them is open beside the list where the address has its id. */
import { defineComponent, watch } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import { Heading } from '../ui/basics.tsx';
import { useKeys } from '../ui/keys.tsx';
import { SearchBox, useSearch } from '../ui/search-box.tsx';
import { MessageDrawer } from './message.tsx';
import { loadMessages, MessageTable } from './message-list.tsx';
import { isMessageId, qualifiers, spans } from './message-search.ts';

const chips = [
  ['All', ''],
  ['Problems', 'is:deferred,held,bounced,failed'],
  ['Waiting', 'is:waiting,deferred,scheduled,held'],
  ['Bounced', 'is:bounced'],
  ['Refused', 'is:refused'],
] as const;

export const Messages = defineComponent(() => {
  const search = useSearch(qualifiers);
  const route = useRoute();
  const router = useRouter();
  // An id is of one message.
  watch(
    () => search().words.find(isMessageId),
    (id) => id && void router.replace(`/messages/${id}`),
    { immediate: true },
  );
  const list = loadMessages(() => ({}));
  const open = (id: string | undefined) =>
    void router.replace({ path: `/messages${id ? `/${id}` : ''}`, query: route.query });
  const step = (by: number) => {
    const ids = (list.data.value ?? []).map(({ id }) => id);
    const now = ids.indexOf(String(route.params.id));
    const next = ids[now + by];
    if (next !== undefined && now >= 0) open(next);
  };
  return () => (
    <div class="screen">
      <Heading
        title="Messages"
        lead="Every message that came in, was refused or went out, and what became of it."
      />
      <SearchBox
        label="Messages"
        qualifiers={qualifiers}
        placeholder="Address, domain, id or Message-ID"
        chips={chips}
      >
        {() => <SpanChoice />}
      </SearchBox>
      <MessageTable list={list} q={String(route.query.q ?? '')} />
      {route.params.id && (
        <Steps step={step}>
          {() => <MessageDrawer id={String(route.params.id)} close={() => open(undefined)} />}
        </Steps>
      )}
    </div>
  );
});

/** While it is there, `j` and `k` lead to the next message in place of the next row. */
const Steps = defineComponent(
  (props: { step: (by: number) => void }, { slots }) => {
    useKeys({ j: () => props.step(1), k: () => props.step(-1) });
    return () => slots.default?.();
  },
  { props: ['step'] },
);

/** The time that is looked at, beside the box. */
function SpanChoice() {
  const route = useRoute();
  const router = useRouter();
  const choose = (event: Event) => {
    const span = (event.target as HTMLSelectElement).value;
    const { span: _before, ...others } = route.query;
    void router.replace({ query: span === '' ? others : { ...others, span } });
  };
  return (
    <label>
      <span class="unseen">Time</span>
      <select value={String(route.query.span ?? '')} onChange={choose}>
        {spans.map(([name, label]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
    </label>
  );
}
