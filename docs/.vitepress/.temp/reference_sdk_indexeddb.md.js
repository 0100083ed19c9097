import { ssrRenderAttrs } from "vue/server-renderer";
import { useSSRContext } from "vue";
import { _ as _export_sfc } from "./plugin-vue_export-helper.1tPrXgE0.js";
const __pageData = JSON.parse('{"title":"@postroom/sdk/indexeddb","description":"","frontmatter":{},"headers":[],"relativePath":"reference/sdk/indexeddb.md","filePath":"reference/sdk/indexeddb.md"}');
const _sfc_main = { name: "reference/sdk/indexeddb.md" };
function _sfc_ssrRender(_ctx, _push, _parent, _attrs, $props, $setup, $data, $options) {
  _push(`<div${ssrRenderAttrs(_attrs)}><h1 id="postroom-sdk-indexeddb" tabindex="-1">@postroom/sdk/indexeddb <a class="header-anchor" href="#postroom-sdk-indexeddb" aria-label="Permalink to &quot;@postroom/sdk/indexeddb&quot;">​</a></h1><p>The copy in the browser&#39;s database, which all tabs of an origin share.</p><p>Browsers close a database under their pages (iOS does, in the background): the first call after that opens it again. Where it cannot be used any more, <code>onLost</code> is called, and every call is rejected.</p><div class="language-ts"><button title="Copy Code" class="copy"></button><span class="lang">ts</span><pre class="shiki postroom vp-code" tabindex="0"><code><span class="line"><span class="tok-keyword">import</span><span> { indexedDbStore } </span><span class="tok-keyword">from</span><span class="tok-string-expression"> &#39;@postroom/sdk/indexeddb&#39;</span><span>;</span></span></code></pre></div><table tabindex="0"><thead><tr><th></th><th></th></tr></thead><tbody><tr><td><a href="#indexedDbStore"><code>indexedDbStore</code></a></td><td>The copy in the browser&#39;s database.</td></tr><tr><td><a href="#IndexedDbOptions"><code>IndexedDbOptions</code></a></td><td>Where in the browser the copy is.</td></tr></tbody></table><h2 id="indexedDbStore" tabindex="-1">indexedDbStore <a class="header-anchor" href="#indexedDbStore" aria-label="Permalink to &quot;indexedDbStore {#indexedDbStore}&quot;">​</a></h2><p>The copy in the browser&#39;s database. It is opened with the first call.</p><div class="language-ts"><button title="Copy Code" class="copy"></button><span class="lang">ts</span><pre class="shiki postroom vp-code" tabindex="0"><code><span class="line"><span class="tok-keyword">function</span><span class="tok-function"> indexedDbStore</span><span>({ name }?</span><span class="tok-keyword">:</span><span class="tok-function"> IndexedDbOptions</span><span>)</span><span class="tok-keyword">:</span><span class="tok-function"> Store</span><span>;</span></span></code></pre></div><h2 id="IndexedDbOptions" tabindex="-1">IndexedDbOptions <a class="header-anchor" href="#IndexedDbOptions" aria-label="Permalink to &quot;IndexedDbOptions {#IndexedDbOptions}&quot;">​</a></h2><p>Where in the browser the copy is.</p><div class="language-ts"><button title="Copy Code" class="copy"></button><span class="lang">ts</span><pre class="shiki postroom vp-code" tabindex="0"><code><span class="line"><span class="tok-keyword">interface</span><span class="tok-function"> IndexedDbOptions</span><span> {</span></span>
<span class="line"><span class="tok-comment">    /** Of the database; \`postroom\` when left out. */</span></span>
<span class="line"><span class="tok-keyword">    readonly</span><span> name</span><span class="tok-keyword">?:</span><span class="tok-constant"> string</span><span>;</span></span>
<span class="line"><span>}</span></span></code></pre></div></div>`);
}
const _sfc_setup = _sfc_main.setup;
_sfc_main.setup = (props, ctx) => {
  const ssrContext = useSSRContext();
  (ssrContext.modules || (ssrContext.modules = /* @__PURE__ */ new Set())).add("reference/sdk/indexeddb.md");
  return _sfc_setup ? _sfc_setup(props, ctx) : void 0;
};
const indexeddb = /* @__PURE__ */ _export_sfc(_sfc_main, [["ssrRender", _sfc_ssrRender]]);
export {
  __pageData,
  indexeddb as default
};
