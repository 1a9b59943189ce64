" Ask in the chat, and end Vim; it fails where nothing comes.

let s:steps = ['the editor', 'the chat', 'a reply']

function! s:headings() abort
  return len(filter(getline(1, '$'), 'v:val ==# "## You"'))
endfunction

" Go on with the conversation where it can.
function! s:look(left, timer) abort
  if s:steps[0] ==# 'the editor'
    call remove(s:steps, 0)
    AishChat
  elseif s:steps[0] ==# 'the chat' && s:headings() == 1
    call remove(s:steps, 0)
    call setline('$', 'how do I list files')
    AishSend
  elseif s:headings() == 2
    qall!
  elseif a:left == 0
    let l:seen = ['waited for ' . s:steps[0]] + getline(1, '$') + split(execute('messages'), "\n")
    call writefile(l:seen, '/dev/stderr')
    cquit
  endif
  call timer_start(50, function('s:look', [a:left - 1]))
endfunction

autocmd VimEnter * call timer_start(50, function('s:look', [2400]))
