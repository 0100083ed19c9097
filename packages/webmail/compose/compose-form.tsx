/** The form of a message: recipients, subject, text, the folded quote, files, and when it is sent. */
import { ref } from 'vue';
import { Button, Tool } from '../ui/button.tsx';
import { component } from '../ui/component.ts';
import { Failure } from '../ui/loaded.tsx';
import { Menu } from '../ui/menu.tsx';
import { onText, sets, turns } from '../ui/sets.ts';
import { AttachButton, FileList, QuoteFold, useFiles } from './compose-files.tsx';
import { PlainEditor, RichEditor } from './editor.tsx';
import { textOf } from './html-tools.ts';
import { LaterMenu } from './later-menu.tsx';
import { Recipients } from './recipients.tsx';
import { textToHtml } from './reply.ts';
import type { SessionProps } from './session.ts';

interface FormProps extends SessionProps {
  readonly title: string;
}

export const ComposeForm = component<FormProps>(['title', 'session'], (props) => {
  const { session } = props;
  const { content } = session;
  const files = useFiles(session);
  const isLarge = ref(false);
  const press = (event: KeyboardEvent) => {
    // Single keys belong to the text; those of the list do nothing here.
    event.stopPropagation();
    // In an open menu they belong to that.
    if (event.isComposing || document.querySelector(':popover-open')) return;
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      void session.send();
    } else if (event.key === 'Escape') void session.close();
  };
  return () => (
    <form
      class={['compose-form', { large: isLarge.value, dropping: files.isDropping.value }]}
      onKeydown={press}
      {...files.on}
    >
      <header class="bar">
        <h2 class="cut">{props.title}</h2>
        <span class="soft" role="status">
          {session.status.value}
        </span>
        <Tool icon="expand" label="Larger" pressed={isLarge.value} press={turns(isLarge)} />
        <Tool icon="close" label="Save and close" press={() => void session.close()} />
      </header>
      <div class="fields">
        <ComposeFields session={session} />
        <ComposeText session={session} />
        {content.quote && (
          <QuoteFold quote={content.quote} drop={() => session.change({ quote: undefined })} />
        )}
        <FileList session={session} />
      </div>
      <Failure text={session.trouble.value} />
      <ComposeFoot session={session} />
    </form>
  );
});

/** To, Cc, Bcc and the subject. */
const ComposeFields = component<SessionProps>(['session'], ({ session }) => {
  const { content } = session;
  const hasCopies = ref(content.cc.length + content.bcc.length > 0);
  const people = (field: 'to' | 'cc' | 'bcc', label: string) => (
    <Recipients
      key={field}
      label={label}
      people={content[field]}
      client={session.client}
      startsHere={field === 'to' && content.to.length === 0}
      onChange={(chosen) => session.change({ [field]: chosen })}
    >
      {hasCopies.value ? undefined : (
        <Button class="link" label="Cc, Bcc" press={sets(hasCopies, true)} />
      )}
    </Recipients>
  );
  return () => (
    <>
      {people('to', 'To')}
      {hasCopies.value && people('cc', 'Cc')}
      {hasCopies.value && people('bcc', 'Bcc')}
      <label class="subject-field ruled">
        <span>Subject</span>
        <input
          type="text"
          dir="auto"
          value={content.subject}
          onInput={onText((subject) => session.change({ subject }))}
        />
      </label>
    </>
  );
});

const ComposeText = ({ session }: SessionProps) =>
  session.content.html === undefined ? (
    <PlainEditor
      text={session.content.text}
      startsHere={session.content.to.length > 0}
      onChange={(text) => session.change({ text })}
    />
  ) : (
    <RichEditor
      html={session.content.html}
      onFiles={(files) => session.attach(files)}
      onChange={(html) => session.change({ html })}
    />
  );

const ComposeFoot = ({ session }: SessionProps) => {
  const { html, text } = session.content;
  const turn = () =>
    session.change(
      html === undefined ? { html: textToHtml(text) } : { html: undefined, text: textOf(html) },
    );
  const discard = () => void session.discard();
  return (
    <footer class="bar">
      {/* A form without a button that submits it does nothing where Enter is pressed in a field. */}
      <Button
        class="main"
        icon="send"
        label={session.isSending.value ? 'Sending…' : 'Send'}
        title="Send (Ctrl+Enter)"
        press={() => void session.send()}
      />
      <LaterMenu send={(at) => void session.send(at.toISOString())} />
      <AttachButton session={session} />
      <Menu
        label="More"
        items={() => [
          { label: html === undefined ? 'Formatting' : 'Plain text', icon: 'edit', run: turn },
          { label: 'Throw away', icon: 'delete', isDangerous: true, run: discard },
        ]}
      />
    </footer>
  );
};
