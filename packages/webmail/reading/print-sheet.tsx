/** A message on paper: it alone, with all its addresses. */
import { onBeforeUnmount, onMounted, Teleport } from 'vue';
import { component } from '../ui/component.ts';
import { MailFrame } from './mail-frame.tsx';
import { MessageHead } from './message-head.tsx';
import type { BesideProps } from './open-message.ts';
import { PlainText } from './plain-text.tsx';
import { subjectOf } from './stranger-text.ts';

/** By then a frame has told its height, in milliseconds. */
const READY_AFTER_MS = 1500;

export const PrintSheet = component<BesideProps>(['open', 'close'], ({ open, close }) => {
  const { message, auth, html, text } = open.read;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const print = () => {
    window.print();
    close();
  };
  onMounted(() => {
    timer = setTimeout(print, html === undefined ? 0 : READY_AFTER_MS);
  });
  // Whoever went on meanwhile gets no other message on paper.
  onBeforeUnmount(() => clearTimeout(timer));
  return () => (
    <Teleport to="body">
      <div class="print-sheet" inert>
        <h1>{subjectOf(message.envelope)}</h1>
        <MessageHead message={message} auth={auth} isOpen />
        {html === undefined ? (
          <PlainText text={text ?? ''} />
        ) : (
          <MailFrame html={html} images={open.images} />
        )}
      </div>
    </Teleport>
  );
});
