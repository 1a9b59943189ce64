" aish in Vim, over vim-lsp or ALE: see :help aish.

if exists('g:loaded_aish')
  finish
endif
let g:loaded_aish = 1

command! AishChat call aish#chat()
command! AishSend call aish#send()
command! AishStop call aish#stop()
command! -range AishActions call aish#actions(<range> ? visualmode() : '')

nnoremap <silent> <Plug>(aish-chat) :call aish#chat()<CR>
nnoremap <silent> <Plug>(aish-send) :call aish#send()<CR>
nnoremap <silent> <Plug>(aish-stop) :call aish#stop()<CR>
nnoremap <silent> <Plug>(aish-actions) :call aish#actions('')<CR>
vnoremap <silent> <Plug>(aish-actions) :<C-u>call aish#actions('v')<CR>

if get(g:, 'aish_mappings', 1)
  for [s:mode, s:keys, s:what] in [
        \ ['n', 'o', 'chat'], ['n', 's', 'send'], ['n', 'c', 'stop'], ['n', 'a', 'actions'],
        \ ['v', 'a', 'actions']]
    if !hasmapto('<Plug>(aish-' . s:what . ')', s:mode)
      execute s:mode . 'map <unique> <leader>a' . s:keys '<Plug>(aish-' . s:what . ')'
    endif
  endfor
endif

" A reply comes while you look at another file; and with ALE by the file.
set hidden autoread

" The chat is Markdown, and a client needs to know what a file is.
filetype plugin on

augroup aish
  autocmd!
  autocmd User lsp_setup call aish#vim_lsp#register()
augroup END

if !empty(aish#client())
  call aish#follow()
endif
if aish#client() ==# 'ale'
  call aish#ale#register()
endif
