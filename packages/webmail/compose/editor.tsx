/** The text of a message: plain, or with formatting by Squire, which is loaded when somebody wants it. */
import type Squire from 'squire-rte';
import { onBeforeUnmount, onMounted, ref, shallowRef } from 'vue';
import { Tool } from '../ui/button.tsx';
import { component } from '../ui/component.ts';
import { reasonOf } from '../ui/format.ts';
import { Failure } from '../ui/loaded.tsx';
import { onText } from '../ui/sets.ts';
import { rebuild } from './html-tools.ts';

interface PlainProps {
  readonly text: string;
  readonly onChange: (text: string) => void;
  /** The focus is here when the form opens. */
  readonly startsHere: boolean;
}

export const PlainEditor = component<PlainProps>(['text', 'onChange', 'startsHere'], (props) => {
  const area = ref<HTMLTextAreaElement>();
  onMounted(() => {
    // What is written stands above the signature.
    area.value?.setSelectionRange(0, 0);
    if (props.startsHere) area.value?.focus();
  });
  return () => (
    <textarea
      ref={area}
      class="text"
      dir="auto"
      aria-label="Text"
      value={props.text}
      onInput={onText(props.onChange)}
    />
  );
});

interface RichProps {
  readonly html: string;
  readonly onChange: (html: string) => void;
  /** Files that were pasted. */
  readonly onFiles: (files: FileList) => void;
}

const FORMATS = [
  { label: 'Bold', shown: 'B', tag: 'B', on: 'bold', off: 'removeBold' },
  { label: 'Italic', shown: 'I', tag: 'I', on: 'italic', off: 'removeItalic' },
  { label: 'Underline', shown: 'U', tag: 'U', on: 'underline', off: 'removeUnderline' },
  { label: 'List', shown: '•', tag: 'UL', on: 'makeUnorderedList', off: 'removeList' },
  { label: 'Numbers', shown: '#', tag: 'OL', on: 'makeOrderedList', off: 'removeList' },
  {
    label: 'Quote',
    shown: '❝',
    tag: 'BLOCKQUOTE',
    on: 'increaseQuoteLevel',
    off: 'decreaseQuoteLevel',
  },
] as const;

export const RichEditor = component<RichProps>(['html', 'onChange', 'onFiles'], (props) => {
  const root = ref<HTMLElement>();
  const editor = shallowRef<Squire>();
  const failure = ref<string>();
  const active = ref('');
  let isGone = false;
  onMounted(async () => {
    try {
      const { default: Editor } = await import('squire-rte');
      if (isGone || !root.value) return;
      const made = new Editor(root.value, {
        blockTag: 'DIV',
        sanitizeToDOMFragment: (html) => document.adoptNode(rebuild(html, false)),
      });
      made.setHTML(props.html);
      made.addEventListener('input', () => props.onChange(made.getHTML()));
      made.addEventListener('pathChange', () => {
        active.value = made.getPath();
      });
      made.addEventListener('pasteImage', (event) => {
        const { clipboardData } = (event as CustomEvent<{ clipboardData?: DataTransfer }>).detail;
        if (clipboardData && clipboardData.files.length > 0) props.onFiles(clipboardData.files);
      });
      // Enter with Control sends: it is a key of the form.
      made.setKeyHandler('Ctrl-Enter', () => {});
      made.setKeyHandler('Meta-Enter', () => {});
      editor.value = made;
      made.moveCursorToStart().focus();
    } catch (error) {
      failure.value = `The editor could not be loaded: ${reasonOf(error)}. Write plain text.`;
    }
  });
  onBeforeUnmount(() => {
    isGone = true;
    editor.value?.destroy();
  });
  const isOn = (tag: string) => new RegExp(`(?:^|>)${tag}\\b`).test(active.value);
  const apply = ({ tag, on, off }: (typeof FORMATS)[number]) => {
    editor.value?.[isOn(tag) ? off : on]();
    editor.value?.focus();
  };
  return () => (
    <div class="rich">
      <div class="formats bar wrap ruled" role="toolbar" aria-label="Formatting">
        {FORMATS.map((format) => (
          <Tool
            key={format.label}
            label={format.label}
            shown={format.shown}
            pressed={isOn(format.tag)}
            disabled={!editor.value}
            press={() => apply(format)}
          />
        ))}
      </div>
      <Failure text={failure.value} />
      {/* biome-ignore lint/a11y/useSemanticElements: a textarea has no formatting. */}
      {/* biome-ignore lint/a11y/useFocusableInteractive: Vue's name of it is tabindex. */}
      <div
        ref={root}
        class="text"
        contenteditable="true"
        tabindex="0"
        role="textbox"
        aria-multiline="true"
        aria-label="Text"
      />
    </div>
  );
});
