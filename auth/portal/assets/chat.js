// The chat. It keeps the conversation in this page and nowhere else, and writes text
// only by textContent: nothing that a model says becomes markup.
'use strict';

(() => {
  const form = document.getElementById('chat');
  if (!form) return;
  const at = (id) => document.getElementById(id);
  const key = at('key'), model = at('model'), models = at('models') || model, log = at('log');
  const state = at('state'), text = at('text'), send = at('send'), stop = at('stop'), anew = at('anew');
  const token = form.elements.form_token.value;
  let messages = [];
  let running = null; // the AbortController of what is being answered

  const el = (name, className, content) => {
    const e = document.createElement(name);
    e.className = className;
    e.textContent = content;
    return e;
  };

  const show = (who, content, className) => {
    const empty = at('empty');
    if (empty) empty.remove();
    const box = el('div', 'said ' + className, '');
    box.append(el('p', 'by', who));
    const body = el('p', 'text', content);
    box.append(body);
    log.append(box);
    log.scrollTop = log.scrollHeight;
    return body;
  };

  const busy = (yes) => {
    log.setAttribute('aria-busy', String(yes));
    send.disabled = yes;
    stop.disabled = !yes;
    key.disabled = yes;
  };

  // What went wrong, in words, and what to do.
  const explain = async (answer) => {
    let message = '';
    try {
      message = (await answer.clone().json()).error.message;
    } catch {
      // A proxy may answer with a page of its own.
    }
    if (!message) message = 'The answer was ' + answer.status + '.';
    const wait = answer.headers.get('Retry-After');
    if (wait && /^\d+$/.test(wait)) message += ' Try again in ' + wait + ' s.';
    return message;
  };

  const problem = (message) => show('Not answered', message, 'fault');

  // events yields what the lines "data: ..." of a stream say.
  async function* events(body) {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = done ? '' : lines.pop();
      for (const line of lines) {
        if (line.startsWith('data:')) yield line.slice(5).trim();
      }
      if (done) return;
    }
  }

  const ask = async () => {
    const said = text.value.trim();
    if (running || !said) return;
    if (!model.value.trim()) {
      state.textContent = 'Choose a model first.';
      model.focus();
      return;
    }
    running = new AbortController();
    const mine = running;
    const before = messages;
    const asked = [...messages, { role: 'user', content: said }];
    text.value = '';
    show('You', said, 'you');
    busy(true);
    state.textContent = 'Waiting for ' + model.value + ' …';
    let answered = '';
    let body = null;
    let failed = '';
    try {
      const answer = await fetch('/chat/completions', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', 'X-Form-Token': token },
        body: JSON.stringify({ key: key.value, model: model.value.trim(), messages: asked }),
        signal: mine.signal,
        redirect: 'error',
      });
      const stream = (answer.headers.get('Content-Type') || '').startsWith('text/event-stream');
      if (!answer.ok || !stream) {
        failed = await explain(answer);
      } else {
        let whole = false;
        for await (const data of events(answer.body)) {
          if (data === '[DONE]') {
            whole = true;
            break;
          }
          const event = JSON.parse(data);
          if (event.error) {
            failed = event.error.message || 'The model stopped with an error.';
            break;
          }
          const choice = event.choices && event.choices[0];
          if (!choice) continue;
          const piece = (choice.delta && choice.delta.content) || '';
          if (!piece) {
            if (choice.delta && (choice.delta.reasoning_content || choice.delta.reasoning)) state.textContent = 'The model is thinking …';
            continue;
          }
          answered += piece;
          if (!body) {
            body = show(model.value, '', 'model');
            state.textContent = 'Answering …';
          }
          const low = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
          body.textContent = answered;
          if (low) log.scrollTop = log.scrollHeight;
        }
        if (!whole && !failed) failed = 'The answer broke off. Send your message again.';
      }
    } catch (err) {
      if (err.name === 'AbortError') {
        if (running === mine) state.textContent = 'Stopped.';
      } else if (err instanceof SyntaxError) {
        failed = 'The answer cannot be read. Send your message again.';
      } else {
        failed = 'The gateway cannot be reached. Check your connection and send your message again.';
      }
    }
    if (running !== mine) return; // another conversation has begun
    running = null;
    busy(false);
    if (answered) {
      messages = [...asked, { role: 'assistant', content: answered }];
    } else {
      messages = before;
      if (!text.value) text.value = said; // to be sent again
    }
    if (failed) {
      problem(failed);
      state.textContent = '';
    } else if (!mine.signal.aborted) {
      state.textContent = answered ? '' : 'The model answered nothing.';
    }
    text.focus();
  };

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    ask();
  });
  text.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      ask();
    }
  });
  stop.addEventListener('click', () => {
    if (running) running.abort();
  });
  anew.addEventListener('click', () => {
    if (running) running.abort();
    running = null;
    messages = [];
    busy(false);
    log.replaceChildren();
    state.textContent = 'A new conversation.';
    text.focus();
  });
  key.addEventListener('change', async () => {
    try {
      const answer = await fetch('/chat/models?key=' + encodeURIComponent(key.value), { redirect: 'error' });
      if (!answer.ok) throw new Error(String(answer.status));
      const list = (await answer.json()).models;
      const before = model.value;
      models.replaceChildren(...list.map((name) => {
        const option = document.createElement('option');
        option.value = name;
        if (models === model) option.textContent = name;
        return option;
      }));
      if (list.includes(before)) model.value = before;
      else model.value = list[0] || '';
      state.textContent = list.length || models !== model ? '' : 'This key may use no model.';
    } catch {
      state.textContent = 'The models of this key are not known. Load the page again.';
    }
  });
})();
