/** A message on paper: it alone, with all its addresses. */
import { defineComponent, onMounted, ref, Teleport } from 'vue';
import { MailFrame } from './mail-frame.tsx';
import { MessageHead } from './message-head.tsx';
import { PlainText } from './plain-text.tsx';
import { straighten } from './stranger-text.ts';
import type { OpenMessage } from './use-message.ts';

interface SheetProps {
  readonly open: OpenMessage;
  readonly close: () => void;
}

/** A mail whose pictures do not come is printed without them, after this many milliseconds. */
const READY_WITHIN_MS = 1500;

export const PrintSheet = defineComponent(
  (props: SheetProps) => {
    const isDone = ref(false);
    const print = () => {
      if (isDone.value) return;
      isDone.value = true;
      // The height that was just told is laid out first.
      requestAnimationFrame(() => {
        window.print();
        props.close();
      });
    };
    onMounted(() => {
      if (props.open.read.html === undefined) print();
      else setTimeout(print, READY_WITHIN_MS);
    });
    return () => {
      const { message, auth, html, text } = props.open.read;
      return (
        <Teleport to="body">
          <div class="print-sheet" inert>
            <h1>{straighten(message.envelope.subject) || '(no subject)'}</h1>
            <MessageHead message={message} auth={auth} isOpen />
            {html === undefined ? (
              <PlainText text={text ?? ''} />
            ) : (
              <MailFrame html={html} images={props.open.images} withRemote={false} isDark={false} />
            )}
          </div>
        </Teleport>
      );
    };
  },
  { props: ['open', 'close'] },
);
