/** Short messages that say that something was done; they leave by themselves. */
import { ToastDescription, ToastProvider, ToastRoot, ToastViewport } from 'reka-ui';
import { defineComponent, ref } from 'vue';

interface Message {
  readonly id: number;
  readonly text: string;
  readonly tone: 'good' | 'bad';
}

const messages = ref<readonly Message[]>([]);
let lastId = 0;

/** Says that something was done, or that it was not. */
export function say(text: string, tone: Message['tone'] = 'good'): void {
  lastId += 1;
  messages.value = [...messages.value, { id: lastId, text, tone }];
}

function drop(id: number): void {
  messages.value = messages.value.filter((message) => message.id !== id);
}

/** Shows what `say` says; stands once in the page. */
export const Messages = defineComponent(() => () => (
  <ToastProvider label="Message" duration={6000}>
    {() => [
      ...messages.value.map(({ id, text, tone }) => (
        <ToastRoot
          key={id}
          class={['message', tone]}
          onUpdate:open={(isOpen: boolean) => isOpen || drop(id)}
        >
          {() => <ToastDescription>{() => text}</ToastDescription>}
        </ToastRoot>
      )),
      <ToastViewport class="messages" />,
    ]}
  </ToastProvider>
));
