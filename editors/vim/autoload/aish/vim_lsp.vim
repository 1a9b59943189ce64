" vim-lsp: the chat grows in its buffer, and questions are asked.

" Have vim-lsp know the server.
function! aish#vim_lsp#register() abort
  call lsp#register_server({
        \ 'name': 'aish',
        \ 'cmd': {info -> [get(g:, 'aish_executable', 'aish-lsp')]},
        \ 'root_uri': {info -> lsp#utils#path_to_uri(aish#root(bufnr('%')))},
        \ 'allowlist': ['*'],
        \ })
  call timer_start(100, function('s:flush'), {'repeat': -1})
endfunction

" vim-lsp tells a server of an edit that it asked for only at your next key. Tell it at once, or the
" reply waits for you to press one.
function! s:flush(timer) abort
  if lsp#get_server_status('aish') ==# 'running'
    for l:buffer in getbufinfo({'bufloaded': 1})
      if l:buffer.name =~# '/\.aish/chat\.md$'
        call lsp#ensure_flush_all(l:buffer.bufnr, ['aish'])
      endif
    endfor
  endif
endfunction

" List what can be done here.
function! aish#vim_lsp#actions(mode) abort
  execute empty(a:mode) ? 'LspCodeAction' : "'<,'>LspCodeAction"
endfunction

" Have the server execute a command.
function! aish#vim_lsp#execute(command) abort
  call lsp#send_request('aish', {
        \ 'method': 'workspace/executeCommand',
        \ 'params': {'command': a:command},
        \ 'on_notification': function('s:answered'),
        \ })
endfunction

" Tell what the server refused.
function! s:answered(data) abort
  if lsp#client#is_error(a:data.response)
    call aish#tell(a:data.response.error.message)
  endif
endfunction
