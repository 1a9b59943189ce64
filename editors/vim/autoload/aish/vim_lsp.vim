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

" vim-lsp waits until you have typed nothing for a second, in any buffer: what it has not told yet
" of a file would be missing from what the model reads.
function! s:tell_of_changes() abort
  for l:buffer in getbufinfo({'bufmodified': 1})
    if empty(getbufvar(l:buffer.bufnr, '&buftype'))
      call lsp#ensure_flush_all(l:buffer.bufnr, ['aish'])
    endif
  endfor
endfunction

" List what can be done here.
function! aish#vim_lsp#actions(mode) abort
  call s:tell_of_changes()
  execute empty(a:mode) ? 'LspCodeAction' : "'<,'>LspCodeAction"
endfunction

" Have the server execute a command.
function! aish#vim_lsp#execute(command) abort
  call s:tell_of_changes()
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
