" What both clients share: the chat, and which of them there is.

" Return the client that is there: 'vim_lsp', else 'ale'; empty where there is none.
function! aish#client() abort
  if exists('g:aish_client')
    return g:aish_client
  endif
  if !empty(globpath(&runtimepath, 'autoload/lsp.vim'))
    return 'vim_lsp'
  endif
  return empty(globpath(&runtimepath, 'autoload/ale/linter.vim')) ? '' : 'ale'
endfunction

" Tell something in red.
function! aish#tell(message) abort
  echohl WarningMsg
  echomsg 'aish: ' . tr(a:message, "\n", ' ')
  echohl None
endfunction

" Return the workspace of a buffer: the folder of the nearest .git, else the current one.
function! aish#root(buffer) abort
  let l:git = finddir('.git', escape(fnamemodify(bufname(a:buffer), ':p:h'), ' ,;') . ';')
  return empty(l:git) ? getcwd() : fnamemodify(l:git, ':p:h:h')
endfunction

" Return whether there is a client and a server; what is missing is told.
function! s:is_ready() abort
  if empty(aish#client())
    call aish#tell('it needs vim-lsp or ALE: see :help aish')
  elseif !executable(get(g:, 'aish_executable', 'aish-lsp'))
    call aish#tell('aish-lsp is not there: pipx install aish-lsp')
  else
    return 1
  endif
  return 0
endfunction

" Open the chat of the workspace.
function! aish#chat() abort
  if !s:is_ready()
    return
  endif
  let l:folder = aish#root(bufnr('%')) . '/.aish'
  call mkdir(l:folder, 'p')
  execute 'edit' fnameescape(l:folder . '/chat.md')
  if line('$') == 1 && getline(1) ==# ''
    call setline(1, ['## You', '', ''])
  endif
  normal! G
endfunction

" Send what stands below the last heading of the chat.
function! aish#send() abort
  if s:is_ready()
    call aish#{aish#client()}#execute('aish.chat.send')
  endif
endfunction

" Stop the reply or the command that runs.
function! aish#stop() abort
  if s:is_ready()
    call aish#{aish#client()}#execute('aish.cancel')
  endif
endfunction

" Have Vim read files again that have changed on the disk, where no change of yours is lost.
function! aish#follow() abort
  call timer_start(500, function('s:reload'), {'repeat': -1})
endfunction

function! s:reload(timer) abort
  if mode() ==# 'n'
    for l:buffer in getbufinfo({'bufloaded': 1})
      if !l:buffer.changed && filereadable(l:buffer.name)
        silent! execute 'checktime' l:buffer.bufnr
      endif
    endfor
  endif
endfunction

" List what can be done here; `mode` is that of a selection, empty for none.
function! aish#actions(mode) abort
  if s:is_ready()
    call aish#{aish#client()}#actions(a:mode)
  endif
endfunction
